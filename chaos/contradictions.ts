import type { Client } from '@temporalio/client';
import { budgetTaskQueue } from '../src/contract/index.js';
import type { Violation } from './checker.js';

/** Values of the API's `WorkflowTaskFailedCause` whose cause is the workflow's own code. */
const THREW = 14;
const CONTRADICTED_ITS_HISTORY = 24;

/** Searches the histories of all workflows of a task queue for tasks that failed because of the workflow's own code. */
export async function contradictions(client: Client, taskQueue: string): Promise<Violation[]> {
  const violations: Violation[] = [];
  const query = `TaskQueue IN ('${taskQueue}', '${budgetTaskQueue(taskQueue)}')`;
  for await (const { workflowId, runId } of client.workflow.list({ query })) {
    const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    for (const { eventId, workflowTaskFailedEventAttributes: failed } of events ?? []) {
      if (!failed || ![THREW, CONTRADICTED_ITS_HISTORY].includes(Number(failed.cause))) continue;
      const detail = `event ${String(eventId)}: ${failed.failure?.message ?? 'no message'}`;
      violations.push({ kind: 'contradicted', subject: workflowId, detail });
      break;
    }
  }
  return violations;
}
