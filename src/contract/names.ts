import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';

/** Names of the workflow types for any Temporal SDK or the `temporal` CLI. */
export const WorkflowType = {
  followUp: 'followUp',
  followUpBatch: 'followUpBatch',
  /** Internal: a part of a batch. */
  followUpBatchPart: 'followUpBatchPart',
  projectBudget: 'projectBudget',
  /** Internal: delivers a webhook. */
  followUpWebhook: 'followUpWebhook',
} as const;

/** Prefixes of the workflow ids. */
export const WorkflowIdPrefix = {
  followUp: 'follow-up/',
  followUpBatch: 'follow-up-batch/',
  projectBudget: 'project-budget/',
  followUpWebhook: 'follow-up-webhook/',
} as const;

/** Base name of the task queues when `FOLLOW_UP_TASK_QUEUE` is not set. */
export const DEFAULT_TASK_QUEUE = 'follow-ups';

/**
 * Budgets have their own task queue. On a shared queue, measurements showed follow-ups in local activities filling
 * every workflow-task slot, so that the budget never ran.
 */
export function budgetTaskQueue(taskQueue: string): string {
  return `${taskQueue}-budget`;
}

/** Longest Keyword that every Temporal store accepts. A longer `prLink` is not in the attribute. */
export const MAX_KEYWORD_LENGTH = 255;

/** The search attributes of a follow-up. The worker registers them when it starts. */
export const SearchAttribute = {
  projectId: defineSearchAttributeKey('FollowUpProjectId', SearchAttributeType.KEYWORD),
  jobId: defineSearchAttributeKey('FollowUpJobId', SearchAttributeType.KEYWORD),
  /** A `FollowUpState`. */
  state: defineSearchAttributeKey('FollowUpState', SearchAttributeType.KEYWORD),
  /** The job's status at the last read. */
  jobStatus: defineSearchAttributeKey('FollowUpJobStatus', SearchAttributeType.KEYWORD),
  prLink: defineSearchAttributeKey('FollowUpPrLink', SearchAttributeType.KEYWORD),
  /** When its message was last sent, or may have been: its slot is in use from then. */
  lastSendAt: defineSearchAttributeKey('FollowUpLastSendAt', SearchAttributeType.DATETIME),
  batchId: defineSearchAttributeKey('FollowUpBatchId', SearchAttributeType.KEYWORD),
} as const;
