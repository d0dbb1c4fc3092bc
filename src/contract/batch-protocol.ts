/**
 * What a batch and its parts say to each other. Not part of the published contract.
 *
 * @module
 */
import { z } from 'zod';
import { type BatchCounts, BatchErrorType, countFields, type ItemOutcome, outcomeFields } from './batch-result.js';
import { followUpBatchWorkflowId } from './ids.js';
import { defineQuery, defineSignal } from './names.js';

/** The outcome of the item at `index` of the batch. */
export type EndedItem = ItemOutcome & { index: number };

/** From a batch to one of its parts. */
export interface PartOrder {
  /**
   * Always increases, even after a reset of the batch, because it is at least the time in milliseconds. A part's report
   * names the latest order that it has received.
   */
  number: number;
  /** Most follow-ups that the part may have open. */
  share: number;
  /** Only items of the batch below this index may start. */
  until?: number | undefined;
  /** Start no more follow-ups, and cancel the open ones. */
  cancel?: true | undefined;
  /** Report all ends again: the batch has forgotten them, as after a reset. */
  tellAll?: true | undefined;
  /** Start no more follow-ups: the batch that runs now has other items. */
  orphaned?: true | undefined;
}

/** From a part to its batch: its counts, and what has ended since the last report. */
export interface PartReport {
  part: number;
  /** Always increases. A report with a number that is not higher says nothing new. */
  number: number;
  /** `hashOfItems` of its items. */
  hash: string;
  /** Number of the latest order that the part has received. */
  order: number;
  open: number;
  counts: BatchCounts;
  ended: EndedItem[];
}

/** The items of a part. `template` is filled into every item. */
export interface PartItems {
  /** Index of the first item in the batch. */
  first: number;
  template: Record<string, unknown>;
  items: unknown[];
}

/** Input of a part. */
export interface PartInput extends PartItems {
  batchId: string;
  part: number;
  /** `hashOfItems` of its items. */
  hash: string;
  order: PartOrder;
  /**
   * It ran before, and this many of its items had begun, as far as the batch knows: what they did is asked of Temporal
   * first.
   */
  again?: number;
}

/** What the follow-up of an item is known by. */
export interface ExpectedItem {
  /** `hashOfItem` of its input. */
  hash: string;
  /** It may watch the job of a message whose delivery is not known. */
  mayAssume: boolean;
}

/** Of the activity `findItems`: asks how the follow-ups of items stand. */
export interface FindItemsInput {
  batchId: string;
  items: (ExpectedItem & { workflowId: string })[];
}

/** What Temporal knows about the follow-up of an item: its outcome, that it is open, or (neither set) nothing. */
export interface FoundItem {
  outcome?: ItemOutcome;
  isOpen?: true;
}

/** Answer of the activity `findPart`. */
export interface FoundPart {
  isOpen?: true;
  /** Its batch has ended, and a retry of it was started. */
  wasRetried?: true;
  /** What it was started with; missing if Temporal no longer keeps it. */
  items?: PartItems;
}

/**
 * Workflow id of a part. It has the hash of the items, so that a part with other items, such as one of an earlier batch
 * with the same id, is never taken for this one.
 */
export function partWorkflowId({ batchId, part, hash }: Pick<PartInput, 'batchId' | 'part' | 'hash'>): string {
  return followUpBatchWorkflowId({ batchId, part: `${part}-${hash}` });
}

/** Memo field of an item's follow-up: `hashOfItem` of its input. */
export const ITEM_HASH_MEMO = 'itemHash';

/** Memo field of a retry: the id of the batch that it retries. */
export const RETRY_OF_MEMO = 'retryOf';

export const partOrderSignal = defineSignal<[PartOrder]>('partOrder');
export const partReportSignal = defineSignal<[PartReport]>('partReport');

/** Of a batch: the workflow ids of its parts that have started. */
export const batchPartsQuery = defineQuery<string[]>('batchParts');

/**
 * Schemas of the signals. Anything else, such as a signal sent by hand, would fail the workflow tasks. This is a function
 * because other workflows load this module too and do not need the schemas.
 */
export function batchMessageSchemas() {
  const count = z.int().min(0);
  const number = z.number().min(0);
  const outcome = outcomeFields({ type: z.enum(BatchErrorType).catch('Other') });
  const partOrder: z.ZodType<PartOrder> = z.object({
    number,
    share: count,
    until: count.optional(),
    cancel: z.literal(true).optional(),
    tellAll: z.literal(true).optional(),
    orphaned: z.literal(true).optional(),
  });
  const partReport: z.ZodType<PartReport> = z.object({
    part: count,
    number,
    hash: z.string(),
    order: number,
    open: count,
    counts: z.object(countFields()),
    ended: z.array(z.object({ index: count, ...outcome })),
  });
  return { partOrder, partReport };
}

/** Schema of the input of a part, as far as others read it. */
export function partItemsSchema(): z.ZodType<PartItems> {
  return z.object({ first: z.int().min(0), template: z.record(z.string(), z.unknown()), items: z.array(z.unknown()) });
}
