import { z } from 'zod';
import { type Delivered, FailureType } from './failures.js';
import { type TerminalStatus, terminalStatuses } from './follow-up-result.js';
import { defineQuery, defineUpdate } from './names.js';

/** Most items in the result of a batch. */
export const MAX_RESULT_ITEMS = 500;

/** Why an item has no result: a failure of its follow-up, or the reason why the follow-up could not report one. */
export const BatchErrorType = {
  ...FailureType,
  /** The follow-up could not be started, for example because its workflow id was used before. */
  NotStarted: 'NotStarted',
  /** Somebody terminated the follow-up or its part of the batch, or Temporal no longer keeps it. */
  Terminated: 'Terminated',
  /** Temporal ended the follow-up at a timeout, or it failed in an unknown way. */
  Other: 'Other',
} as const;
export type BatchErrorType = (typeof BatchErrorType)[keyof typeof BatchErrorType];

const batchErrorTypes = Object.values(BatchErrorType);

/** Why an item has no result. */
export interface BatchItemError {
  type: BatchErrorType;
  /** At most 200 characters. The follow-up's own failure has the full text. */
  message: string;
  /** Whether the message reached the service. */
  delivered: Delivered;
}

/** One item of a batch. Until it has ended, it has neither `status` nor `error`. */
export interface BatchItem {
  /** Its position in the batch, counted from 0. */
  index: number;
  /** Empty if a bad item has none. */
  projectId: string;
  jobId: string;
  /** Workflow id of its follow-up, `follow-up/{projectId}/{jobId}/{batchId}:{index}`; empty for a bad item. */
  workflowId: string;
  status?: TerminalStatus | undefined;
  /** Missing if it is longer than 255 bytes; the follow-up's result has it. */
  prLink?: string | null | undefined;
  error?: BatchItemError | undefined;
}

/** How an item ended: with a status, or with an error. */
export type ItemOutcome = Pick<BatchItem, 'status' | 'prLink' | 'error'>;

/** How the items of a batch ended. */
export interface BatchCounts {
  completed: number;
  archived: number;
  /** Agent jobs that failed. */
  failed: number;
  /** Items that ended without a result. */
  errors: number;
  /** How many of `errors` may or may not have been delivered. */
  unknown: number;
  errorsByType: Partial<Record<BatchErrorType, number>>;
}

/** Result of the `followUpBatch` workflow. Every item has an outcome, even in a batch that was cancelled. */
export interface FollowUpBatchResult extends BatchCounts {
  /** The sum of `completed`, `archived`, `failed` and `errors`. */
  total: number;
  /** In the order of the batch; at most 500. */
  items: BatchItem[];
  /** Set if `items` is incomplete. The query `batchItems` returns all of them. */
  truncated?: true | undefined;
  /** Set if the batch was cancelled. */
  cancelled?: true | undefined;
}

// The schemas are functions because follow-ups load this module too and do not need them.

/** Schema of {@link FollowUpBatchResult}. */
export function followUpBatchResultSchema(): z.ZodType<FollowUpBatchResult> {
  const count = z.int().min(0);
  return z.object({
    total: count,
    ...countFields(),
    items: z.array(
      z.object({ index: count, projectId: z.string(), jobId: z.string(), workflowId: z.string(), ...outcomeFields() }),
    ),
    truncated: z.literal(true).optional(),
    cancelled: z.literal(true).optional(),
  });
}

/** Fields of a schema of {@link BatchCounts}. */
export function countFields() {
  const count = z.int().min(0);
  return {
    completed: count,
    archived: count,
    failed: count,
    errors: count,
    unknown: count,
    errorsByType: z.partialRecord(z.enum(batchErrorTypes), count),
  };
}

/** Fields of a schema of a {@link BatchItem}'s outcome. */
export function outcomeFields({ type = z.enum(batchErrorTypes) }: { type?: z.ZodType<BatchErrorType> } = {}) {
  return {
    status: z.enum(terminalStatuses).optional(),
    prLink: z.string().nullable().optional(),
    error: z.object({ type, message: z.string(), delivered: z.enum(['yes', 'no', 'unknown']) }).optional(),
  };
}

/** Why a batch starts nothing more until `continueBatch`. */
export interface BatchHold {
  /** The option that holds it. */
  name: 'canary' | 'max-failures';
  /** One sentence for people. */
  reason: string;
  /** Since when. ISO 8601 in UTC. */
  at: string;
}

/** Answer of the `batchStatus` query. All times are ISO 8601 in UTC. */
export interface BatchStatus extends BatchCounts {
  batchId: string;
  /** Items accepted so far: `waitingToStart`, `open`, `completed`, `archived`, `failed` and `errors` together. */
  total: number;
  /** Items whose follow-ups have not started. */
  waitingToStart: number;
  /** Follow-ups that have started and not ended. */
  open: number;
  /**
   * How many of `open` wait for a slot of their project's budget. The library fills this in from Temporal's visibility
   * store, which lags by about a second.
   */
  waitingForBudget?: number | undefined;
  /**
   * How the batch's workflow ended if it has no result, such as `terminated`; the counts are those of that moment. The
   * library fills this in from Temporal, and `stillRunning`: how many of its follow-ups still run.
   */
  cutOff?: string | undefined;
  stillRunning?: number | undefined;
  maxOpen: number;
  /** Set while the batch is held: open follow-ups go on, and no other is started. */
  hold?: BatchHold | undefined;
  /** The options of the brake, until the first `continueBatch` (`canary`) and for good (`maxFailures`). */
  canary?: number | undefined;
  maxFailures?: number | string | undefined;
  /** No more items can come. */
  sealed: boolean;
  cancelled: boolean;
  /** Every item has an outcome, and no more items can come. */
  ended: boolean;
  /** Workflows that hold the items. */
  parts: number;
  startedAt: string;
  /** When the first item ended. */
  firstEndedAt?: string | undefined;
  lastEndedAt?: string | undefined;
}

/** Which items to answer. */
export interface BatchItemsRange {
  /** Index of the first item. @default 0 */
  offset?: number | undefined;
  /** At most 500. @default 100 */
  limit?: number | undefined;
}

/** Answer of the `batchItems` query. */
export interface BatchItemsPage {
  total: number;
  offset: number;
  items: BatchItem[];
  /**
   * A batch itself knows its first 500 items. This part of it knows the `count` items from `offset + items.length` on:
   * send it the same query with that offset. The library does this.
   */
  elsewhere?: { workflowId: string; count: number } | undefined;
}

/** Answer of `addItems` and `seal`. */
export interface BatchTotal {
  /** Items accepted so far. */
  total: number;
}

/** The progress of a batch. Needs a running worker. */
export const batchStatusQuery = defineQuery<BatchStatus>('batchStatus');

/** Items with their outcomes, including items that have not ended. Needs a running worker. */
export const batchItemsQuery = defineQuery<BatchItemsPage, [range?: BatchItemsRange]>('batchItems');

/**
 * Adds items to a batch that was started with `open: true`: at most 256 KiB of JSON, or a single item. `offset` is the
 * number of items that the batch had before. With it, a piece that is sent again is not added twice.
 */
export const addItemsUpdate = defineUpdate<BatchTotal, [items: unknown[], offset?: number]>('addItems');

/** No more items will come. `total`, if given, must be the number of items. Repeating it is harmless. */
export const sealUpdate = defineUpdate<BatchTotal, [total?: number]>('seal');

/** Answer of `continueBatch`. */
export interface BatchContinued {
  /** The hold that it ended; `null` if it let the rest go before the canary had ended. */
  hold: BatchHold | null;
}

/**
 * Lets a held batch go on, or the rest of a batch go before its canary has ended. Refused with `InvalidInput` if there is
 * nothing to continue.
 */
export const continueBatchUpdate = defineUpdate<BatchContinued>('continueBatch');
