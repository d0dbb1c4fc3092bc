import type { WorkflowHandle } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import {
  type BatchItem,
  batchItemsQuery,
  type BatchStatus,
  batchStatusQuery,
  type FollowUpBatchResult,
  followUpBatchWorkflowId,
} from '../../src/contract/index.js';
import type { Stack } from './stack.js';

/**
 * The values of `WorkflowTaskFailedCause` that are not failures. 1: something arrived while a task ended a run, so the
 * task is repeated. 17: the server closed the run, for a reset, while a worker had a task of it. 20: a reset.
 */
const NO_FAILURES = ['1', '17', '20'];

/** A batch as any Temporal client sees it. */
export interface RunningBatch {
  batchId: string;
  handle: WorkflowHandle;
  status(): Promise<BatchStatus>;
  items(): Promise<BatchItem[]>;
  result(): Promise<FollowUpBatchResult>;
}

/** Starts a batch as any Temporal client would. */
export async function startBatch(
  { client, taskQueue }: Pick<Stack, 'client' | 'taskQueue'>,
  batchId: string,
  input: unknown,
): Promise<RunningBatch> {
  const workflowId = followUpBatchWorkflowId({ batchId });
  const handle = await client.workflow.start('followUpBatch', { taskQueue, workflowId, args: [input] });
  return {
    batchId,
    handle,
    status: () => handle.query(batchStatusQuery),
    async items() {
      const found: BatchItem[] = [];
      for (;;) {
        const page = await handle.query(batchItemsQuery, { offset: found.length, limit: 500 });
        found.push(...page.items);
        if (page.elsewhere) {
          const part = client.workflow.getHandle(page.elsewhere.workflowId);
          const { items } = await part.query(batchItemsQuery, { offset: found.length, limit: page.elsewhere.count });
          found.push(...items);
        } else if (page.items.length === 0 || found.length >= page.total) {
          return found;
        }
      }
    },
    result: async () => (await handle.result()) as FollowUpBatchResult,
  };
}

/** Follow-up inputs, whose jobs it adds to a simulator. */
export function makeItems(
  { simulator }: Pick<Stack, 'simulator'>,
  projects: readonly string[],
  each: number,
  extra: object = {},
): { projectId: string; jobId: string; prompt: string }[] {
  return projects.flatMap((projectId) =>
    Array.from({ length: each }, (_, index) => {
      const jobId = `job-${index}`;
      simulator.addJob({ projectId, jobId });
      return { projectId, jobId, prompt: `message ${index}`, ...extra };
    }),
  );
}

/** The runs and failed tasks of a workflow, the events of its longest run, and the bytes of its largest payload. */
export async function measureHistories(
  { client }: Pick<Stack, 'client'>,
  workflowId: string,
): Promise<{ runs: number; events: number; payloadBytes: number; failedTasks: number }> {
  const measured = { runs: 0, events: 0, payloadBytes: 0, failedTasks: 0 };
  for await (const { runId } of client.workflow.list({ query: `WorkflowId = '${workflowId}'` })) {
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    measured.runs += 1;
    measured.events = Math.max(measured.events, history.events?.length ?? 0);
    measured.failedTasks += (history.events ?? []).filter(
      ({ workflowTaskFailedEventAttributes: failed }) =>
        failed !== null && failed !== undefined && !NO_FAILURES.includes(String(failed.cause)),
    ).length;
    JSON.parse(historyToJSON(history), (_key, value: unknown) => {
      if (typeof value !== 'object' || value === null || !('payloads' in value)) return value;
      const { payloads } = value as { payloads: { data?: string }[] };
      const bytes = payloads.reduce((sum, { data = '' }) => sum + (data.length * 3) / 4, 0);
      measured.payloadBytes = Math.max(measured.payloadBytes, bytes);
      return value;
    });
  }
  return measured;
}
