import { z } from 'zod';
import { defineQuery, defineUpdate, object } from '../common/index.js';
import { deliveredValues } from './choices.js';
import { FailureType, terminalStatuses } from './follow-up-result.js';

/** Most items in the result of a batch. */
export const MAX_RESULT_ITEMS = 500;

/** Why an item has no result: its follow-up's failure type, or why the follow-up did not report one. */
export const BatchErrorType = {
  ...FailureType,
  /** The follow-up could not be started, for example because its workflow id was used before. */
  NotStarted: 'NotStarted',
  /** The follow-up or its part of the batch was terminated, or Temporal no longer keeps it. */
  Terminated: 'Terminated',
  /** Temporal ended the follow-up at a timeout, or it failed in an unknown way. */
  Other: 'Other',
} as const;
export type BatchErrorType = (typeof BatchErrorType)[keyof typeof BatchErrorType];

const count = z.int().min(0);
const instant = z.iso.datetime();

const itemSchema = object({
  /** Position in the batch, from 0. */
  index: count,
  /** Empty for an item without a valid one. */
  projectId: z.string(),
  jobId: z.string(),
  /** Workflow id of its follow-up, `follow-up/{projectId}/{jobId}/{batchId}:{index}`; empty for an invalid item. */
  workflowId: z.string(),
  status: z.enum(terminalStatuses).optional(),
  /** Missing if longer than 255 bytes; the follow-up's result has it. */
  prLink: z.string().nullable().optional(),
  error: object({
    type: z.enum(BatchErrorType),
    /** At most 200 characters. The follow-up's own failure has the full text. */
    message: z.string(),
    /** Whether the message reached the service. */
    delivered: z.enum(deliveredValues),
  }).optional(),
});
/** One item of a batch. Until it has ended, it has neither `status` nor `error`. */
export type BatchItem = z.infer<typeof itemSchema>;

/** The end of an item: a status or an error. */
export type ItemOutcome = Pick<BatchItem, 'status' | 'prLink' | 'error'>;

const countsSchema = object({
  completed: count,
  archived: count,
  /** Agent jobs that failed. */
  failed: count,
  /** Items that ended without a result. */
  errors: count,
  /** How many of `errors` have an unknown delivery. */
  unknown: count,
  errorsByType: z.partialRecord(z.enum(BatchErrorType), count),
});
/** Items of a batch by outcome. */
export type BatchCounts = z.infer<typeof countsSchema>;

/** Result of the `followUpBatch` workflow. Every item has an outcome, even in a cancelled batch. */
export const followUpBatchResultSchema = object({
  /** The sum of `completed`, `archived`, `failed` and `errors`. */
  total: count,
  ...countsSchema.shape,
  /** In the order of the batch; at most 500. */
  items: z.array(itemSchema),
  /** Set if `items` is incomplete. The query `batchItems` returns all of them. */
  truncated: z.literal(true).optional(),
  cancelled: z.literal(true).optional(),
});
export type FollowUpBatchResult = z.infer<typeof followUpBatchResultSchema>;

/** Result of the `batchStatus` query. All times are ISO 8601 in UTC. */
export const batchStatusSchema = object({
  batchId: z.string(),
  /** Items accepted so far: `waitingToStart`, `open`, `completed`, `archived`, `failed` and `errors` together. */
  total: count,
  /** Items whose follow-ups have not started. */
  waitingToStart: count,
  /** Follow-ups that have started but not ended. */
  open: count,
  ...countsSchema.shape,
  maxOpen: z.int().min(1),
  /** Set while an option holds the batch: open follow-ups continue, and no others start until `continueBatch`. */
  hold: object({
    name: z.enum(['canary', 'max-failures']),
    /** One sentence. */
    reason: z.string(),
    at: instant,
  }).optional(),
  /** Missing after the first `continueBatch`. */
  canary: z.int().min(1).optional(),
  maxFailures: z.union([count, z.string()]).optional(),
  /** The webhook targets that it notifies. */
  notify: z.array(z.string()).optional(),
  /** Whether no more items can be added. */
  sealed: z.boolean(),
  cancelled: z.boolean(),
  /** Whether every item has an outcome and no more can be added. */
  ended: z.boolean(),
  /** Number of workflows that hold the items. */
  parts: count,
  startedAt: instant,
  /** Time of the first end. */
  firstEndedAt: instant.optional(),
  lastEndedAt: instant.optional(),
});
/** Result of the `batchStatus` query, with fields that the library adds from Temporal. */
export type BatchStatus = z.infer<typeof batchStatusSchema> & {
  /** How many of `open` wait for a slot of their project's budget, or are blocked, about a second ago. */
  waitingToSend?: number | undefined;
  /**
   * How the batch's workflow ended without a result, such as `terminated`. Its own counts are from that time; `listed`
   * has what became of its follow-ups since then.
   */
  cutOff?: string | undefined;
  listed?: ListedItems[] | undefined;
};

/** Follow-ups of a batch in one state, by Temporal's list. */
export interface ListedItems {
  projectId: string;
  /** `starting` before the first one, or how Temporal ended it, such as `terminated`. */
  state: string;
  isRunning: boolean;
  count: number;
}

/** The reason why a batch starts nothing more until `continueBatch`. */
export type BatchHold = NonNullable<BatchStatus['hold']>;

/** Result of the `batchItems` query. */
export const batchItemsSchema = object({
  total: count,
  offset: count,
  items: z.array(itemSchema),
  /**
   * A batch itself holds its first 500 items. This part of it holds the `count` items from `offset + items.length` on:
   * send it the same query with that offset, as the library does.
   */
  elsewhere: object({ workflowId: z.string(), count }).optional(),
});
export type BatchItemsPage = z.infer<typeof batchItemsSchema>;

/** Range of items. */
export interface BatchItemsRange {
  /** Index of the first item. @default 0 */
  offset?: number | undefined;
  /** At most 500. @default 100 */
  limit?: number | undefined;
}

/** Result of `addItems` and `seal`. */
export interface BatchTotal {
  /** Items accepted so far. */
  total: number;
}

/** Result of `continueBatch`. */
export interface BatchContinued {
  /** The hold that it ended; `null` if it ended a running canary. */
  hold: BatchHold | null;
}

/** The progress of a batch. Needs a running worker. */
export const batchStatusQuery = defineQuery<BatchStatus>('batchStatus');

/** Items with their outcomes, including items that have not ended. Needs a running worker. */
export const batchItemsQuery = defineQuery<BatchItemsPage, [range?: BatchItemsRange]>('batchItems');

/**
 * Adds items to a batch that was started with `open: true`: at most 256 KiB of JSON, or a single item. `offset` is the
 * number of items that the batch had before, so that a repeated piece is not added twice.
 */
export const addItemsUpdate = defineUpdate<BatchTotal, [items: unknown[], offset?: number]>('addItems');

/** Declares the list complete. `total`, if given, must be the number of items. Repeating it is harmless. */
export const sealUpdate = defineUpdate<BatchTotal, [total?: number]>('seal');

/**
 * Continues a held batch, or starts the rest of a batch before its canary has ended. Refused with `InvalidInput` if
 * there is nothing to continue.
 */
export const continueBatchUpdate = defineUpdate<BatchContinued>('continueBatch');
