/**
 * Everything that callers of the workflows need: ids, inputs, results, queries, signals, updates, failure types. Safe to
 * import anywhere: in workflow code, in activities, in clients and in browsers. Imports no client, worker or HTTP code.
 *
 * @module
 */
export {
  type BatchOptions,
  DEFAULT_MAX_OPEN,
  type FollowUpBatchInput,
  followUpBatchInputSchema,
  type FollowUpDefaults,
  MAX_CANARY,
  MAX_MAX_OPEN,
  MAX_PIECE_BYTES,
  parseBatchInput,
} from './batch-input.js';
export {
  addItemsUpdate,
  type BatchContinued,
  type BatchCounts,
  BatchErrorType,
  type BatchHold,
  type BatchItem,
  type BatchItemError,
  type BatchItemsPage,
  batchItemsQuery,
  type BatchItemsRange,
  type BatchStatus,
  batchStatusQuery,
  type BatchTotal,
  continueBatchUpdate,
  type FollowUpBatchResult,
  followUpBatchResultSchema,
  MAX_RESULT_ITEMS,
  sealUpdate,
} from './batch-result.js';
export {
  type BlockReason,
  blockReasons,
  type BudgetSend,
  type BudgetStatus,
  budgetStatusQuery,
  type BudgetWaiter,
  type PauseInput,
  pauseInputSchema,
  type PauseReason,
  pauseUpdate,
  type Refusal,
  resumeUpdate,
  type SendOutcome,
  sendOutcomes,
  type SetLimitInput,
  setLimitInputSchema,
  setLimitUpdate,
  type TakeAnswer,
  type TakeInput,
  takeInputSchema,
  takeUpdate,
  type WaitReason,
  waitReasons,
} from './budget-messages.js';
export {
  type EndState,
  endStates,
  type FollowUpState,
  followUpStates,
  type Lane,
  lanes,
  type OpenState,
  openStates,
  type ResolveWord,
  resolveWords,
  type UnknownDeliveryAction,
  unknownDeliveryActions,
  type WhenActiveAction,
  whenActiveActions,
} from './choices.js';
export { type DurationInput, durationSchema, formatDuration, parseDurationMs } from './durations.js';
export { type Delivered, type FailureDetails, FailureType, type InputIssue } from './failures.js';
export { type FollowUpInput, followUpInputSchema, type FollowUpSettings, MAX_PROMPT_BYTES } from './follow-up-input.js';
export {
  type FollowUpFacts,
  type FollowUpProgress,
  type FollowUpStanding,
  pollNowSignal,
  progressQuery,
  resolveDeliveryUpdate,
  type ShownPause,
} from './follow-up-messages.js';
export {
  type AgentJob,
  agentJobSchema,
  type EndedStanding,
  type EndFailure,
  endOf,
  type FollowUpResult,
  followUpResultSchema,
  isEndState,
  isTerminalStatus,
  type TerminalStatus,
  terminalStatuses,
} from './follow-up-result.js';
export {
  batchIdSchema,
  type BatchIdParts,
  batchItemKey,
  followUpBatchWorkflowId,
  type FollowUpIdParts,
  followUpWorkflowId,
  idSchema,
  keySchema,
  parseFollowUpBatchWorkflowId,
  parseFollowUpWorkflowId,
  parseProjectBudgetWorkflowId,
  projectBudgetWorkflowId,
  workflowIdIssue,
} from './ids.js';
export { budgetTaskQueue, DEFAULT_TASK_QUEUE, SearchAttribute, WorkflowIdPrefix, WorkflowType } from './names.js';
export { describeIssues, parseInput, type Parsed } from './validation.js';
