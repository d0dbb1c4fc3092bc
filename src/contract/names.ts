import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';

/** Workflow types, as any Temporal SDK or the `temporal` CLI names them. */
export const WorkflowType = {
  followUp: 'followUp',
  followUpBatch: 'followUpBatch',
  /** Internal: some of a batch's items. */
  followUpBatchPart: 'followUpBatchPart',
  projectBudget: 'projectBudget',
} as const;

/** What workflow ids begin with. */
export const WorkflowIdPrefix = {
  followUp: 'follow-up/',
  followUpBatch: 'follow-up-batch/',
  projectBudget: 'project-budget/',
} as const;

/** Base name of the task queues when `FOLLOW_UP_TASK_QUEUE` is not set. */
export const DEFAULT_TASK_QUEUE = 'follow-ups';

/**
 * A budget has a task queue of its own: with budgets and follow-ups on one queue, follow-ups waiting in local activities
 * were measured to fill every workflow-task slot, and the budget never ran.
 */
export function budgetTaskQueue(taskQueue: string): string {
  return `${taskQueue}-budget`;
}

/** Longest value of a Keyword on every Temporal store; a longer `prLink` is left out of the attribute. */
export const MAX_KEYWORD_LENGTH = 255;

/** The search attributes of a follow-up, all Keyword. The worker registers them at start. */
export const SearchAttribute = {
  projectId: defineSearchAttributeKey('FollowUpProjectId', SearchAttributeType.KEYWORD),
  jobId: defineSearchAttributeKey('FollowUpJobId', SearchAttributeType.KEYWORD),
  /** A `FollowUpState`. */
  state: defineSearchAttributeKey('FollowUpState', SearchAttributeType.KEYWORD),
  /** The job's status as last seen. */
  jobStatus: defineSearchAttributeKey('FollowUpJobStatus', SearchAttributeType.KEYWORD),
  prLink: defineSearchAttributeKey('FollowUpPrLink', SearchAttributeType.KEYWORD),
  batchId: defineSearchAttributeKey('FollowUpBatchId', SearchAttributeType.KEYWORD),
} as const;
