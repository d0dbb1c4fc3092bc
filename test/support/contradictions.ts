import type { Client } from '@temporalio/client';
import type { History } from '@temporalio/common/lib/proto-utils.js';
import { Worker } from '@temporalio/worker';
import { budgetTaskQueue } from '../../src/contract/index.js';
import { GrpcStatus, grpcStatusOf } from '../../src/temporal/grpc.js';
import type { Violation } from '../../tools/chaos/checker.js';
import type { HistoryEvent } from './buttons.js';
import { builtWorkflows, installQuietRuntime } from './workflow-rig.js';

/** `WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_PAUSE_REQUESTED_BEFORE_TASK_STARTED` of Temporal's API. */
const PAUSED_BEFORE_TASK = 39;

/** Whether an event is the end of a task that a pause took from the queue. SDK 1.24 can't read a history with one. */
export function isPausedInTask({ workflowTaskFailedEventAttributes }: HistoryEvent): boolean {
  return Number(workflowTaskFailedEventAttributes?.cause) === PAUSED_BEFORE_TASK;
}

/** Values of the API's `WorkflowTaskFailedCause` whose cause is the workflow's own code. */
const THREW = 14;
const CONTRADICTED_ITS_HISTORY = 24;

/** The list query for all workflows of a task queue and its budgets. */
function queryOf(taskQueue: string): string {
  return `TaskQueue IN ('${taskQueue}', '${budgetTaskQueue(taskQueue)}')`;
}

/**
 * Searches the histories of all workflows of a task queue for tasks that failed because of the workflow's own code. After
 * a pause that took a task from its queue, tasks fail whatever the code: the SDK can't read such a history.
 *
 * @param isReplayed replays the histories, too, which takes seconds
 */
export async function contradictions(client: Client, taskQueue: string, isReplayed = false): Promise<Violation[]> {
  const violations: Violation[] = [];
  const toReplay: { workflowId: string; history: History }[] = [];
  for await (const { workflowId, runId } of client.workflow.list({ query: queryOf(taskQueue) })) {
    const history = await client.workflow.getHandle(workflowId, runId).fetchHistory().catch(ofDeleted);
    const events = history.events ?? [];
    violations.push(...contradictionIn(workflowId, events));
    // The SDK replays a history under the id of its first run, of which a reset budget must not think that it is its own.
    const isReset = events[0]?.workflowExecutionStartedEventAttributes?.originalExecutionRunId !== runId;
    if (isReplayed && !isReset && !events.some(isPausedInTask)) toReplay.push({ workflowId, history });
  }
  if (!isReplayed) return violations;
  await installQuietRuntime();
  for await (const { workflowId, error } of Worker.runReplayHistories(builtWorkflows, toReplay)) {
    if (error)
      violations.push({ kind: 'contradicted', subject: workflowId, detail: `at its replay: ${error.message}` });
  }
  return violations;
}

/** The first contradiction in a history, if there is one. */
export function contradictionIn(workflowId: string, events: readonly HistoryEvent[]): Violation[] {
  const pauseAt = events.findIndex(isPausedInTask);
  for (const event of pauseAt < 0 ? events : events.slice(0, pauseAt)) {
    const { eventId, workflowTaskFailedEventAttributes: failed } = event;
    if (!failed || ![THREW, CONTRADICTED_ITS_HISTORY].includes(Number(failed.cause))) continue;
    const detail = `event ${String(eventId)}: ${failed.failure?.message ?? 'no message'}`;
    return [{ kind: 'contradicted', subject: workflowId, detail }];
  }
  return [];
}

function ofDeleted(error: unknown): History {
  if (grpcStatusOf(error) === GrpcStatus.NOT_FOUND) return {};
  throw error;
}
