/**
 * Everything that callers of the workflows need. Safe to import anywhere, also in workflow code and in browsers.
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
export * from './batch-result.js';
export * from './budget.js';
export * from './choices.js';
export { type DurationInput, durationSchema, formatDuration, parseDurationMs } from './durations.js';
export * from './follow-up.js';
export { type FollowUpInput, followUpInputSchema, type FollowUpSettings, MAX_PROMPT_BYTES } from './follow-up-input.js';
export * from './ids.js';
export { budgetTaskQueue, DEFAULT_TASK_QUEUE, SearchAttribute, WorkflowIdPrefix, WorkflowType } from './names.js';
export { type FollowUpEnd, type Webhook, webhookSchema } from './webhook.js';
export { describeIssues, type InputIssue, parseInput, type Parsed } from './validation.js';
