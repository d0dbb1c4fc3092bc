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
export { type BatchExecution, BatchHandle, StartedBatch } from './batch-handle.js';
export type { StartBatchInput, StartBatchOptions } from './batch-plan.js';
export type { BatchPreview, ProjectPreview } from './batch-preview.js';
export type { RetryMemo, RetryOptions, RetryPlan } from './batch-retry.js';
export { BudgetHandle, type ListedBudget } from './budget-handle.js';
export type { RestoredBudget, RestoreOptions } from './budget-restore.js';
export {
  BatchEndedError,
  BatchFailedError,
  BatchInputDiffersError,
  BatchNotFoundError,
  BatchNotHeldError,
  BatchRunningError,
  BudgetNotFoundError,
  BudgetPausedError,
  BudgetRunningError,
  BudgetStoppedError,
  BudgetUpdateRejectedError,
  FollowUpCancelledError,
  FollowUpClientError,
  FollowUpEndedError,
  FollowUpFailedError,
  FollowUpNotFoundError,
  FollowUpTerminatedError,
  FollowUpTimedOutError,
  InvalidInputError,
  NothingToRetryError,
  ResolveRejectedError,
  ScheduleError,
  SearchAttributesMissingError,
  TemporalUnreachableError,
  UnexpectedOutcomeError,
  WorkerUnavailableError,
} from './errors.js';
export {
  FollowUpClient,
  type FollowUpClientOptions,
  parseStartInput,
  type RunOptions,
  type StartInput,
} from './follow-up-client.js';
export { FollowUpHandle, StartedFollowUp } from './follow-up-handle.js';
export type { ListedFollowUp, ListFilter } from './list.js';
export type { BudgetPlace, LiveProgress } from './live-progress.js';
export type { PendingAsk, PendingWatch } from './pending.js';
export type { ResultOptions } from './result.js';
export { type CreateScheduleInput, type ScheduleDescription, Schedules } from './schedules.js';
export type { ExecutionStatus, FollowUpSummary } from './summary.js';
export type { FoundTroubles, WorkflowTrouble } from './trouble.js';
export type { BudgetExecutionState, BudgetUpdate, FollowUpUpdate, WatchOptions } from './watches.js';
