/**
 * Starts and manages follow-ups from any Node program.
 *
 * ```ts
 * import { Client, Connection } from '@temporalio/client';
 * import { FollowUpClient } from 'agent-follow-up/client';
 *
 * const connection = await Connection.connect();
 * const followUps = new FollowUpClient({ client: new Client({ connection }) });
 * const result = await followUps.run({ projectId: 'proj', jobId: 'job-1', prompt: 'Add tests.', key: 'add-tests' });
 * console.log(result.status, result.prLink);
 * ```
 *
 * @module
 */
export { type RetryChoice, retryChoices, type ScheduleOverlap, scheduleOverlaps } from '../contract/index.js';
export { type Poller } from '../temporal/task-queues.js';
export { type BatchExecution, BatchHandle, StartedBatch } from './batch-handle.js';
export { type BatchPreview, type ProjectPreview } from './batch-preview.js';
export { type PlanRetryOptions, type RetryPlan } from './batch-retry.js';
export {
  type BudgetExecutionState,
  BudgetHandle,
  type BudgetUpdate,
  type RestoredBudget,
  type RestoreOptions,
} from './budget-handle.js';
export * from './client-errors.js';
export {
  FollowUpClient,
  type FollowUpClientOptions,
  parseStartInput,
  type RunOptions,
  type StartInput,
} from './follow-up-client.js';
export {
  FollowUpHandle,
  type FollowUpSummary,
  type FollowUpUpdate,
  StartedFollowUp,
  stateOf,
} from './follow-up-handle.js';
export { type StartBatchInput, type StartBatchOptions } from './hand-over.js';
export { type Health, type WorkflowTrouble } from './health.js';
export { type ListFilter } from './list.js';
export { type ListedBudget } from './list-budgets.js';
export { type LiveProgress } from './live-progress.js';
export { type ResultOptions } from './result.js';
export { type CreateScheduleInput, type ScheduleDescription, Schedules } from './schedules.js';
export { type ExecutionStatus } from './temporal.js';
export { type WatchOptions } from './watch-changes.js';
