import type { MetricMeter } from '@temporalio/common';
import type { BudgetClient } from '../activities/index.js';
import type { AgentJobsClient } from '../agent-jobs/index.js';

/** Counts and times the calls of the service. Tags hold only outcomes: no project, job, address or key. */
export function meterAgentJobs(client: AgentJobsClient, meter: MetricMeter): AgentJobsClient {
  const gets = meter.createCounter('follow_up_get_job', undefined, 'Get-job calls by outcome');
  const sends = meter.createCounter('follow_up_send', undefined, 'Follow-up messages by outcome');
  const getTime = meter.createHistogram('follow_up_get_job_duration', 'int', 'ms', 'Time of get-job calls');
  const sendTime = meter.createHistogram('follow_up_send_duration', 'int', 'ms', 'Time of message calls');
  return {
    async getJob(job) {
      const startedMs = performance.now();
      const result = await client.getJob(job);
      getTime.record(elapsedSince(startedMs));
      gets.add(1, { outcome: result.kind === 'failed' ? result.reason : result.kind });
      return result;
    },
    async sendMessage(message) {
      const startedMs = performance.now();
      const result = await client.sendMessage(message);
      sendTime.record(elapsedSince(startedMs));
      sends.add(1, { outcome: result.outcome });
      return result;
    },
    close: () => client.close(),
  };
}

/** Counts the answers of the budgets. */
export function meterBudget(client: BudgetClient, meter: MetricMeter): BudgetClient {
  const asks = meter.createCounter('follow_up_budget_ask', undefined, 'Asks of the budgets by answer');
  return {
    async acquire(projectId, request, forMs) {
      const ask = await client.acquire(projectId, request, forMs);
      const { answer } = ask;
      asks.add(1, { answer: answer.kind, reason: answer.kind === 'wait' ? answer.reason : 'none' });
      return ask;
    },
    tell: (projectId, word) => client.tell(projectId, word),
    allTold: () => client.allTold(),
  };
}

function elapsedSince(startedMs: number): number {
  return Math.round(performance.now() - startedMs);
}

/** One metric with its samples, as in Prometheus' text format (version 0.0.4). */
export interface Metric {
  name: string;
  type: 'gauge' | 'counter';
  help: string;
  samples: Sample[];
}

/** The current value of one time series. */
export interface Sample {
  labels?: Readonly<Record<string, string>>;
  value: number;
}

/** The metrics in Prometheus' text format, without those that have no sample. */
export function prometheusText(metrics: readonly Metric[]): string {
  return metrics
    .filter(({ samples }) => samples.length > 0)
    .map(({ name, type, help, samples }) => {
      const lines = samples.map(({ labels = {}, value }) => `${name}${labelText(labels)} ${value}`);
      return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n');
    })
    .join('');
}

function labelText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escape(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escape(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
