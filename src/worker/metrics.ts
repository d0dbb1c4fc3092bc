import type { MetricMeter } from '@temporalio/common';
import { type Budgets, BudgetStoppedError } from '../activities/budgets.js';
import type { AgentJobsClient } from '../agent-jobs/index.js';
import { sendOutcomes } from '../contract/index.js';

const CALL_BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** From no wait to the default of `budgetWaitTimeout`. */
const WAIT_BUCKETS_SECONDS = [
  1, 5, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 259_200, 604_800,
];

/** Upper bounds of the histograms' buckets in seconds, by the name given to {@link MetricMeter.createHistogram}. */
export const histogramBucketOverrides: Record<string, number[]> = {
  follow_up_get_job_duration: CALL_BUCKETS_SECONDS,
  follow_up_send_duration: CALL_BUCKETS_SECONDS,
  follow_up_start_to_send: WAIT_BUCKETS_SECONDS,
  follow_up_start_to_end: WAIT_BUCKETS_SECONDS,
};

/**
 * Counts and times the calls to the service. Tags hold outcomes only: no project, job, address or key. Counters start
 * at 0, because Prometheus does not see the first increase of a series that starts at 1.
 */
export function meterAgentJobs(client: AgentJobsClient, meter: MetricMeter): AgentJobsClient {
  const gets = meter.createCounter('follow_up_get_job', undefined, 'Get-job calls by outcome');
  const sends = meter.createCounter('follow_up_send', undefined, 'Follow-up messages by outcome');
  const getTime = meter.createHistogram('follow_up_get_job_duration', 'float', 'seconds', 'Time of get-job calls');
  const sendTime = meter.createHistogram('follow_up_send_duration', 'float', 'seconds', 'Time of message calls');
  for (const outcome of sendOutcomes) sends.add(0, { outcome });
  return {
    async getJob(job) {
      const startedMs = performance.now();
      const result = await client.getJob(job);
      getTime.record((performance.now() - startedMs) / 1_000);
      gets.add(1, { outcome: result.kind === 'failed' ? result.reason : result.kind });
      return result;
    },
    async sendMessage(message) {
      const startedMs = performance.now();
      const result = await client.sendMessage(message);
      sendTime.record((performance.now() - startedMs) / 1_000);
      sends.add(1, { outcome: result.outcome });
      return result;
    },
    close: () => client.close(),
  };
}

/** Counts the budgets' replies, and the reasons for missing ones. */
export function meterBudgets(budgets: Budgets, meter: MetricMeter): Budgets {
  const asks = meter.createCounter('follow_up_budget_ask', undefined, 'Asks to the budgets by reply');
  return {
    ...budgets,
    async ask(projectId, ask) {
      try {
        const reply = await budgets.ask(projectId, ask);
        asks.add(1, { reply: reply.kind, reason: 'reason' in reply ? reply.reason : 'none' });
        return reply;
      } catch (error) {
        asks.add(1, {
          reply: 'none',
          reason: error instanceof BudgetStoppedError ? 'budget-stopped' : 'budget-silent',
        });
        throw error;
      }
    },
  };
}
