import type { Client } from '@temporalio/client';
import { isPausedInTask } from '../src/client/trouble.js';
import { budgetTaskQueue } from '../src/contract/index.js';
import type { Violation } from './checker.js';

/** Values of the API's `WorkflowTaskFailedCause` whose cause is the workflow's own code. */
const THREW = 14;
const CONTRADICTED_ITS_HISTORY = 24;

/** The list query for all workflows of a task queue and its budgets. */
export function queryOf(taskQueue: string): string {
  return `TaskQueue IN ('${taskQueue}', '${budgetTaskQueue(taskQueue)}')`;
}

/**
 * Searches the histories of all workflows of a task queue for tasks that failed because of the workflow's own code. After
 * a pause that took a task from its queue, tasks fail whatever the code: the SDK can't read such a history.
 */
export async function contradictions(client: Client, taskQueue: string): Promise<Violation[]> {
  const violations: Violation[] = [];
  for await (const { workflowId, runId } of client.workflow.list({ query: queryOf(taskQueue) })) {
    const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    for (const event of events ?? []) {
      if (isPausedInTask(event)) break;
      const { eventId, workflowTaskFailedEventAttributes: failed } = event;
      if (!failed || ![THREW, CONTRADICTED_ITS_HISTORY].includes(Number(failed.cause))) continue;
      const detail = `event ${String(eventId)}: ${failed.failure?.message ?? 'no message'}`;
      violations.push({ kind: 'contradicted', subject: workflowId, detail });
      break;
    }
  }
  return violations;
}
