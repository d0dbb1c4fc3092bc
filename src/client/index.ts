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
export { type RetryChoice, retryChoices, type ScheduleOverlap, scheduleOverlaps } from '../contract/choices.js';
export { type BatchExecution, BatchHandle, StartedBatch } from './batch.js';
export type { BatchPreview, ProjectPreview } from './batch-preview.js';
export type { PlanRetryOptions, RetryMemo, RetryOptions, RetryPlan } from './batch-retry.js';
export {
  type BudgetExecutionState,
  BudgetHandle,
  type BudgetUpdate,
  type ListedBudget,
  type RestoredBudget,
  type RestoreOptions,
} from './budget.js';
export {
  FollowUpClient,
  type FollowUpClientOptions,
  parseStartInput,
  type RunOptions,
  type StartInput,
} from './client.js';
export * from './errors.js';
export { FollowUpHandle, type FollowUpSummary, type FollowUpUpdate, StartedFollowUp } from './follow-up.js';
export type { StartBatchInput, StartBatchOptions } from './hand-over.js';
export type { Health, Poller, WorkflowTrouble } from './health.js';
export type { ListFilter } from './list.js';
export type { LiveProgress } from './progress.js';
export type { ResultOptions } from './result.js';
export { type CreateScheduleInput, type ScheduleDescription, Schedules } from './schedules.js';
export type { ExecutionStatus } from './temporal.js';
export type { WatchOptions } from './watch.js';
