import {
  defineSearchAttributeKey,
  type QueryDefinition,
  SearchAttributeType,
  type SignalDefinition,
  type UpdateDefinition,
} from '@temporalio/common';

/** Workflow types, as any Temporal SDK or the `temporal` CLI names them. */
export const WorkflowType = {
  followUp: 'followUp',
  followUpBatch: 'followUpBatch',
  /** Internal: some of a batch's items. */
  followUpBatchPart: 'followUpBatchPart',
  projectBudget: 'projectBudget',
} as const;

/** Prefixes of the workflow ids. */
export const WorkflowIdPrefix = {
  followUp: 'follow-up/',
  followUpBatch: 'follow-up-batch/',
  projectBudget: 'project-budget/',
} as const;

/** Base name of the task queues when `FOLLOW_UP_TASK_QUEUE` is not set. */
export const DEFAULT_TASK_QUEUE = 'follow-ups';

/**
 * Budgets have a task queue of their own. On a shared queue, follow-ups that waited in local activities were measured to
 * fill every workflow-task slot, and the budget never ran.
 */
export function budgetTaskQueue(taskQueue: string): string {
  return `${taskQueue}-budget`;
}

/** Longest value of a Keyword that every Temporal store accepts. A longer `prLink` is left out of the attribute. */
export const MAX_KEYWORD_LENGTH = 255;

/** The search attributes of a follow-up, all Keyword. The worker registers them when it starts. */
export const SearchAttribute = {
  projectId: defineSearchAttributeKey('FollowUpProjectId', SearchAttributeType.KEYWORD),
  jobId: defineSearchAttributeKey('FollowUpJobId', SearchAttributeType.KEYWORD),
  /** A `FollowUpState`. */
  state: defineSearchAttributeKey('FollowUpState', SearchAttributeType.KEYWORD),
  /** The job's status when it was last read. */
  jobStatus: defineSearchAttributeKey('FollowUpJobStatus', SearchAttributeType.KEYWORD),
  prLink: defineSearchAttributeKey('FollowUpPrLink', SearchAttributeType.KEYWORD),
  batchId: defineSearchAttributeKey('FollowUpBatchId', SearchAttributeType.KEYWORD),
} as const;

// The same as the functions of these names in `@temporalio/workflow`. Importing that package would make every user of
// the contract load the whole workflow runtime.

export function defineQuery<Answer, Args extends unknown[] = []>(name: string): QueryDefinition<Answer, Args> {
  return { type: 'query', name } as QueryDefinition<Answer, Args>;
}

export function defineSignal<Args extends unknown[] = []>(name: string): SignalDefinition<Args> {
  return { type: 'signal', name } as SignalDefinition<Args>;
}

export function defineUpdate<Answer, Args extends unknown[] = []>(name: string): UpdateDefinition<Answer, Args> {
  return { type: 'update', name } as UpdateDefinition<Answer, Args>;
}
