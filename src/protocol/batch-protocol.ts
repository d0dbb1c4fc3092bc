// Messages between a batch and its parts. Not part of the published contract.
import { ApplicationFailure, CancelledFailure, TerminatedFailure } from '@temporalio/common';
import { z } from 'zod';
import { defineQuery, defineSignal, messageOf } from '../common/index.js';
import {
  type FailureDetails,
  FailureType,
  followUpBatchResultSchema,
  followUpBatchWorkflowId,
  followUpResultSchema,
  type ItemOutcome,
  parseInput,
} from '../contract/index.js';

/** An order from a batch to a part. Without this check, an invalid signal would fail the part's workflow tasks. */
export const partOrderSchema = z.object({
  /** Always increases, even after a reset of the batch, because it is at least the time in milliseconds. */
  number: z.number().min(0),
  /**
   * Number of the first order whose reports count. When it increases, the part reports all ends again: the batch has
   * forgotten earlier reports, as after a reset.
   */
  since: z.number().min(0),
  share: z.int().min(0),
  /** Only items below this index in the batch may start. */
  until: z.int().min(0).optional(),
  /** Starts no more follow-ups, and cancels the open ones. */
  cancel: z.literal(true).optional(),
  /** Starts no more follow-ups, because the batch that runs now has other items. */
  orphaned: z.literal(true).optional(),
});
export type PartOrder = z.infer<typeof partOrderSchema>;

/** An order as a run of the batch sends it. */
export const sentOrderSchema = partOrderSchema.extend({
  /** The run that sends it. The part starts follow-ups only if that run accepts its report. */
  batchRunId: z.string(),
});
export type SentOrder = z.infer<typeof sentOrderSchema>;

const { index, status, prLink, error } = followUpBatchResultSchema.shape.items.element.shape;
// A later version may have more types.
const knownError = error.unwrap().extend({ type: error.unwrap().shape.type.catch('Other') });
const outcomeSchema = z.object({ status, prLink, error: knownError.optional() });

/** A report from a part to its batch: its counts, and the items that ended since the last report. */
export const partReportSchema = z.object({
  part: z.int().min(0),
  /** Always increases. A report without a higher number is old. */
  number: z.number().min(0),
  /** `hashOfItems` of its items. */
  hash: z.string(),
  /** Number of the latest order that the part has received. */
  order: z.number().min(0),
  /** Whether the run of the batch that sent this order no longer runs: the run that runs now sends another. */
  needsOrder: z.literal(true).optional(),
  open: z.int().min(0),
  counts: followUpBatchResultSchema.omit({ total: true, items: true, truncated: true, cancelled: true }),
  ended: z.array(outcomeSchema.extend({ index })),
});
export type PartReport = z.infer<typeof partReportSchema>;

/** The items of a part. `template` is filled into every item. */
export const partItemsSchema = z.object({
  first: z.int().min(0),
  template: z.record(z.string(), z.unknown()),
  items: z.array(z.unknown()),
});
export type PartItems = z.infer<typeof partItemsSchema>;

export interface PartInput extends PartItems {
  batchId: string;
  part: number;
  /** `hashOfItems` of its items. */
  hash: string;
  order: PartOrder;
  /** How many items an earlier run had started, as far as the batch knows: their outcomes come from Temporal. */
  again?: number;
}

/** Identifies the follow-up of an item. */
export interface ExpectedItem {
  /** `hashOfItem` of its input. */
  hash: string;
  /** Whether it may watch a job without knowing that its message was delivered. */
  mayAssume: boolean;
}

export interface FindItemsInput {
  batchId: string;
  items: (ExpectedItem & { workflowId: string })[];
}

/** Temporal's record of an item's follow-up: its outcome, that it is open, or nothing. */
export const foundItemSchema = z.object({ outcome: outcomeSchema.optional(), isOpen: z.literal(true).optional() });
export type FoundItem = z.infer<typeof foundItemSchema>;

export const foundPartSchema = z.object({
  isOpen: z.literal(true).optional(),
  /** Items for a restart. Missing if Temporal no longer keeps them, or if a retry of the batch was started. */
  items: partItemsSchema.optional(),
});
export type FoundPart = z.infer<typeof foundPartSchema>;

/** The outcome of an item whose follow-up completed with this value. */
export function outcomeOfResult(value: unknown): ItemOutcome {
  const result = parseInput(followUpResultSchema, value);
  if (!result.ok) return outcomeOfFailure(new Error('It ended with an unknown result'));
  return { status: result.value.status, prLink: result.value.prLink };
}

/** The outcome of an item without a result, from the cause of its follow-up's failure. */
export function outcomeOfFailure(cause: unknown): ItemOutcome {
  const message = messageOf(cause);
  if (cause instanceof CancelledFailure) {
    // A follow-up ends as Canceled only if nothing was delivered.
    return { error: { type: 'Cancelled', message: 'Cancelled before the message was sent', delivered: 'no' } };
  }
  if (cause instanceof TerminatedFailure) {
    return { error: { type: 'Terminated', message: 'The follow-up was terminated', delivered: 'unknown' } };
  }
  if (cause instanceof ApplicationFailure) {
    const type = Object.values(FailureType).find((known) => known === cause.type) ?? 'Other';
    const { delivered } = (cause.details?.[0] ?? {}) as Partial<FailureDetails>;
    return { error: { type, message, delivered: delivered === 'yes' || delivered === 'no' ? delivered : 'unknown' } };
  }
  return { error: { type: 'Other', message, delivered: 'unknown' } };
}

/** Includes the hash of the items, which distinguishes the parts of an earlier batch with the same id. */
export function partWorkflowId({ batchId, part, hash }: Pick<PartInput, 'batchId' | 'part' | 'hash'>): string {
  return followUpBatchWorkflowId({ batchId, part: `${part}-${hash}` });
}

/** Memo field of an item's follow-up: `hashOfItem` of its input. */
export const ITEM_HASH_MEMO = 'itemHash';

/** Memo field of a retry: the id of the batch that it retries. */
export const RETRY_OF_MEMO = 'retryOf';

/** Id of the `count`-th retry of a batch. */
export function retryBatchId(batchId: string, count: number): string {
  return `${batchId}-retry-${count}`;
}

export const partOrderSignal = defineSignal<[SentOrder]>('partOrder');
export const partReportSignal = defineSignal<[PartReport]>('partReport');

/** Workflow ids of a batch's parts that have started. */
export const batchPartsQuery = defineQuery<string[]>('batchParts');
