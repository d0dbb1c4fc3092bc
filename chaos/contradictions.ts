import type { Client } from '@temporalio/client';
import { budgetTaskQueue } from '../src/contract/index.js';
import type { Violation } from './checker.js';

/** `WorkflowTaskFailedCause` of the API: causes that lie in the workflows' code, not in what was done to it. */
const THREW = 14;
const CONTRADICTED_ITS_HISTORY = 24;

/** Looks through the histories of all workflows of a task queue for tasks that failed by the workflow's own doing. */
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
