import type { UncheckedBatchInput } from '../contract/batch-input.js';
import type { InputIssue } from '../contract/index.js';
import { hash64, utf8Length } from '../contract/text.js';

/**
 * Most items of one part. Each costs about 10 events: a part of 500 stays below the 10,240 events of which the server
 * warns, and never has to continue as new.
 */
export const MAX_PART_ITEMS = 500;
/** Most parts of a batch. The server accepts at most 2,000 children of one workflow. */
export const MAX_PARTS = 800;
/**
 * Most bytes of JSON that a part holds. The server warns of payloads above 512 KiB; the difference is for the other
 * fields.
 */
const MAX_PART_BYTES = 448 * 1_024;
/**
 * Bytes that an item may need besides its input: two ids, a link of 255 bytes, a message of 200 bytes, and field names.
 */
const ITEM_RESERVE_BYTES = 800;

export function jsonBytes(value: unknown): number {
  // Despite its type, `JSON.stringify` returns no text for `undefined`.
  const text: unknown = JSON.stringify(value);
  return typeof text === 'string' ? utf8Length(text) : 0;
}

/** The sizes of the parts that the items are divided into, from the sizes of the items in bytes. */
export function partSizes(sizes: readonly number[], templateBytes: number, mostItems = MAX_PART_ITEMS): number[] {
  const parts: number[] = [];
  let bytes = Infinity;
  for (const size of sizes) {
    bytes += size + ITEM_RESERVE_BYTES;
    const last = parts.at(-1) ?? 0;
    if (bytes <= MAX_PART_BYTES && last < mostItems) parts[parts.length - 1] = last + 1;
    else {
      parts.push(1);
      bytes = templateBytes + size + ITEM_RESERVE_BYTES;
    }
  }
  return parts;
}

/** The issue with a batch that would have more than {@link MAX_PARTS} parts. */
export function tooManyParts(input: UncheckedBatchInput): InputIssue {
  const message = `the batch is too long: it would have more than ${MAX_PARTS} parts; divide it into several batches`;
  return { field: 'items' in input ? 'items' : 'jobIds', message };
}

/** Identifies a list of items. */
export function hashOfItems({ template, items }: { template: Record<string, unknown>; items: unknown[] }): string {
  return hash64(JSON.stringify([template, items]));
}

/** Identifies an item with all its fields. */
export function hashOfItem(item: unknown): string {
  return hash64(JSON.stringify(item));
}
