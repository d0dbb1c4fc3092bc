import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';

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
