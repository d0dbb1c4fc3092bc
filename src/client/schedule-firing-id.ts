import { followUpBatchWorkflowId } from '../contract/index.js';

/** Id of the batch that a schedule starts for the time it was due at, jitter left out: `nightly-2026-11-21T02:00:00Z`. */
export function firingBatchId(name: string, dueAt: Date): string {
  return `${name}-${dueAt.toISOString().slice(0, 19)}Z`;
}

/** Its workflow id. Temporal makes it of the action's workflow id and the time; this has to agree with that. */
export function firingWorkflowId(name: string, dueAt: Date): string {
  return followUpBatchWorkflowId({ batchId: firingBatchId(name, dueAt) });
}
