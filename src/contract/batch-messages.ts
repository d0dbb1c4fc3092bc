import type { TerminalStatus } from './agent-job.js';
import type { BatchErrorType, BatchItem, BatchItemError } from './batch-result.js';
import { defineQuery, defineSignal, defineUpdate } from './definitions.js';

/** Answer of the `batchStatus` query. Instants are ISO 8601 in UTC. */
export interface BatchStatus {
  batchId: string;
  /** Items taken so far. `total` is the sum of the next six. */
  total: number;
  /** Not started yet. */
  waitingToStart: number;
  /** Follow-ups that are started and have not ended. */
  open: number;
  completed: number;
  archived: number;
  /** Agent jobs that failed. */
  failed: number;
  /** Items that ended without a result. */
  errors: number;
  /** How many of `errors` may or may not have been delivered. */
  unknown: number;
  errorsByType: Partial<Record<BatchErrorType, number>>;
  /**
   * How many of `open` wait for a slot of their project's budget. Known to Temporal's visibility alone, a second late:
   * the library fills it in.
   */
  waitingForBudget?: number | undefined;
  /**
   * How the batch's workflow ended without a result, such as `terminated`: the counts are those of that moment. Known to
   * Temporal alone, as is `stillRunning`, how many of its follow-ups go on: the library fills both in.
   */
  cutOff?: string | undefined;
  stillRunning?: number | undefined;
  maxOpen: number;
  /** No more items can come. */
  sealed: boolean;
  cancelled: boolean;
  /** Every item has an outcome, and no more can come. */
  ended: boolean;
  /** Workflows that hold the items. */
  parts: number;
  startedAt: string;
  /** When the first and the latest item ended. */
  firstEndedAt?: string | undefined;
  lastEndedAt?: string | undefined;
}

/** Which items to answer. */
export interface BatchItemsRange {
  /** Index of the first. @default 0 */
  offset?: number | undefined;
  /** At most 500. @default 100 */
  limit?: number | undefined;
}

/** Answer of the `batchItems` query. Fewer than asked for where they would not fit into one answer. */
export interface BatchItemsPage {
  total: number;
  offset: number;
  items: BatchItem[];
  /**
   * In a batch of many thousands: the `count` items from `offset + items.length` on are known in full only to this part;
   * ask it the same query with that offset. The library does it by itself.
   */
  elsewhere?: { workflowId: string; count: number } | undefined;
}

/** What `addItems` and `seal` answer. */
export interface BatchTotal {
  /** Items taken so far. */
  total: number;
}

/** How a batch stands. Needs a running worker. */
export const batchStatusQuery = defineQuery<BatchStatus>('batchStatus');

/** Items with their outcomes, those that have not ended included. Needs a running worker. */
export const batchItemsQuery = defineQuery<BatchItemsPage, [range?: BatchItemsRange]>('batchItems');

/**
 * More items for a batch that was started with `open: true`, at most 256 KiB of JSON or a single item. `offset` is the
 * number of items the batch had before: with it a piece that was taken already is not taken twice, whoever repeats it.
 */
export const addItemsUpdate = defineUpdate<BatchTotal, [items: unknown[], offset?: number]>('addItems');

/** No more items will come. `total`, where given, must be the number of items. Harmless when repeated. */
export const sealUpdate = defineUpdate<BatchTotal, [total?: number]>('seal');

/** From a follow-up to the batch that started it: how it ended. Sent to the workflow id of its parent. */
export interface FollowUpEnd {
  workflowId: string;
  status?: TerminalStatus | undefined;
  prLink?: string | null | undefined;
  error?: BatchItemError | undefined;
}

export const followUpEndedSignal = defineSignal<[FollowUpEnd]>('followUpEnded');
