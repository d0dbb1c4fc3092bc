import type { MetricMeter } from '@temporalio/common';
import type { InjectedSinks } from '@temporalio/worker';
import type { BudgetClient } from '../activities/index.js';
import type { AgentJobsClient } from '../agent-jobs/index.js';
import type { ItemOutcome } from '../batch/outcome.js';
import { type Delivered, endOf, FailureType, sendOutcomes } from '../contract/index.js';
import type { FollowUpSinks } from '../workflows/follow-up.js';

const CALL_BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** From a follow-up that waits for nothing to the default of `budgetWaitTimeout`. */
const WAIT_BUCKETS_SECONDS = [
  1, 5, 15, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 259_200, 604_800,
];

/** Upper bounds of the histograms' buckets in seconds, by the name that {@link MetricMeter.createHistogram} is given. */
export const histogramBucketOverrides: Record<string, number[]> = {
  follow_up_get_job_duration: CALL_BUCKETS_SECONDS,
  follow_up_send_duration: CALL_BUCKETS_SECONDS,
  follow_up_start_to_send: WAIT_BUCKETS_SECONDS,
  follow_up_start_to_end: WAIT_BUCKETS_SECONDS,
};

/**
 * Counts and times the calls of the service. Tags hold outcomes only: no project, job, address or key. A counter begins at
 * 0: Prometheus does not see the rise of a series that begins at 1.
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

/** Times how long follow-ups waited for their message, in milliseconds from their start. */
export function meterWaits(meter: MetricMeter): (startToSendMs: number) => void {
  const help = 'From the start of a follow-up to a message that the service took';
  const waits = meter.createHistogram('follow_up_start_to_send', 'float', 'seconds', help);
  return (startToSendMs) => waits.record(Math.max(0, startToSendMs) / 1_000);
}

/** Counts and times the ends of follow-ups. For the worker that runs them. */
export function meterEnds(meter: MetricMeter): InjectedSinks<FollowUpSinks> {
  const ends = meter.createCounter('follow_up_ended', undefined, 'Follow-ups that ended, by state and failure type');
  const help = 'From the start of a follow-up to its end';
  const times = meter.createHistogram('follow_up_start_to_end', 'float', 'seconds', help);
  for (const tags of possibleEnds()) ends.add(0, tags);
  return {
    followUp: {
      ended: {
        fn: (_, outcome, startToEndMs) => {
          const tags = tagsOf(outcome);
          ends.add(1, tags);
          times.record(Math.max(0, startToEndMs) / 1_000, { state: tags.state });
        },
        callDuringReplay: false,
      },
    },
  };
}

function tagsOf({ status, error }: ItemOutcome): { state: string; failure: string } {
  if (status !== undefined) return { state: endOf({ status }).state, failure: 'none' };
  const { type = 'Other', message = '', delivered = 'unknown' } = error ?? {};
  // The state hangs on nothing but delivery where the type is not one of ours.
  return { state: endOf({ type: type as FailureType, message, delivered }).state, failure: type };
}

/** The ends that follow-ups have, so that each is shown from the start. */
function possibleEnds(): { state: string; failure: string }[] {
  const errors: [FailureType, Delivered[]][] = [
    [FailureType.InvalidInput, ['no']],
    [FailureType.JobNotFound, ['no', 'yes', 'unknown']],
    [FailureType.JobArchived, ['no']],
    [FailureType.MessageRejected, ['no']],
    [FailureType.DeliveryUnknown, ['unknown']],
    [FailureType.BudgetWaitTimeout, ['no', 'unknown']],
    [FailureType.JobTimeout, ['yes', 'unknown']],
    [FailureType.Cancelled, ['no', 'yes', 'unknown']],
    [FailureType.Closed, ['no', 'unknown']],
  ];
  const failed = errors.flatMap(([type, delivered]) =>
    delivered.map((each) => tagsOf({ error: { type, message: '', delivered: each } })),
  );
  const statuses = ['completed', 'archived', 'failed'] as const;
  return [...statuses.map((status) => tagsOf({ status })), ...failed];
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
    tell: (projectId, word, how) => client.tell(projectId, word, how),
    allTold: () => client.allTold(),
  };
}

/** Unix time at which this process started, in seconds. */
const STARTED_AT_SECONDS = Date.now() / 1_000 - process.uptime();

/** Build, readiness and use of resources of this process. */
export function processMetricsText({ version, ready }: { version: string; ready: boolean }): string {
  const { user, system } = process.cpuUsage();
  const one = (type: Metric['type'], name: string, help: string, value: number): Metric => ({
    name,
    type,
    help,
    samples: [{ value }],
  });
  return prometheusText([
    {
      name: 'follow_up_build_info',
      type: 'gauge',
      help: 'Always 1; the labels say what runs',
      samples: [{ labels: { version, node: process.version }, value: 1 }],
    },
    one('gauge', 'follow_up_worker_ready', '1 while /readyz answers 200, otherwise 0', ready ? 1 : 0),
    one('counter', 'process_cpu_seconds_total', 'User and system CPU time', (user + system) / 1_000_000),
    one('gauge', 'process_resident_memory_bytes', 'Resident memory', process.memoryUsage.rss()),
    one('gauge', 'process_start_time_seconds', 'Unix time at which the process started', STARTED_AT_SECONDS),
  ]);
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
