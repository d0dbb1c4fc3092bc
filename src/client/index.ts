/**
 * Starts follow-ups and looks after them from any Node program.
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
export { type ResultOptions } from './await-result.js';
export {
  BatchEndedError,
  BatchFailedError,
  BatchInputDiffersError,
  BatchNotFoundError,
  BatchRunningError,
  NothingToRetryError,
} from './batch-errors.js';
export {
  type BatchExecution,
  BatchHandle,
  type ItemsOptions,
  type LiveBatchStatus,
  type NextSend,
  StartedBatch,
} from './batch-handle.js';
export { type StartBatchInput, type StartBatchOptions } from './batch-input.js';
export { type RetryChoice, retryChoices, type ScheduleOverlap, scheduleOverlaps } from '../contract/choices.js';
export { type RetryOptions, type RetryPlan } from './batch-retry.js';
export {
  BudgetNotFoundError,
  BudgetPausedError,
  BudgetRunningError,
  BudgetStateLostError,
  BudgetStoppedError,
  BudgetUpdateRejectedError,
} from './budget-errors.js';
export { BudgetHandle } from './budget-handle.js';
export type { ListedBudget } from './budget-list.js';
export { type RestoredBudget, type RestoreOptions } from './budget-restore.js';
export { type BudgetExecutionState, type BudgetUpdate } from './budget-watch.js';
export {
  FollowUpCancelledError,
  FollowUpClientError,
  FollowUpEndedError,
  FollowUpFailedError,
  FollowUpNotFoundError,
  FollowUpTerminatedError,
  FollowUpTimedOutError,
  InvalidInputError,
  ResolveRejectedError,
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
export { type ListedFollowUp, type ListFilter } from './list.js';
export { type BudgetPlace, type LiveProgress } from './live-progress.js';
export { type BackfilledRange, type BackfillInput, MAX_BACKFILL_FIRINGS } from './schedule-backfill.js';
export { type Firing, type ScheduleDescription, type ScheduleTimes } from './schedule-description.js';
export { ForeignScheduleError, ScheduleExistsError, ScheduleNotFoundError } from './schedule-errors.js';
export { type FiringCounts, type FiringOutcome } from './schedule-firings.js';
export { ScheduleHandle } from './schedule-handle.js';
export { type CreateScheduleInput, parseCreateScheduleInput } from './schedule-input.js';
export { type TriggeredFiring } from './schedule-trigger.js';
export { Schedules } from './schedules.js';
export { type ExecutionStatus, type FollowUpSummary } from './summary.js';
export { type FoundTroubles, type WorkflowTrouble } from './trouble.js';
export { type FollowUpUpdate, type WatchOptions } from './watch.js';
