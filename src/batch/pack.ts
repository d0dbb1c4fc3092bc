import { utf8Length, type InputIssue, type UncheckedBatchInput } from '../contract/index.js';

/** Most items of one part: about 15 events each, so a part seldom has to continue as new. */
export const MAX_PART_ITEMS = 250;
/** Most parts of a batch; the server takes 2,000 children of one workflow. */
export const MAX_PARTS = 800;
/**
 * Most bytes of JSON that a part holds: below the 512 KiB at which the server warns of a payload, with room for the
 * fields around it.
 */
const MAX_PART_BYTES = 448 * 1_024;
/** What an item may take beside its input: two ids, a link of 255 and a message of 200 bytes, and the names of fields. */
const ITEM_RESERVE_BYTES = 800;

/** Bytes of a value as JSON. */
export function jsonBytes(value: unknown): number {
  // Typed as text, but there is none for `undefined`.
  const text: unknown = JSON.stringify(value);
  return typeof text === 'string' ? utf8Length(text) : 0;
}

/**
 * How many of the first items make one part: as many as fit, and at least one.
 *
 * @param sizes bytes of each item as JSON
 * @param templateBytes what is held once for all items of the part
 */
export function countForPart(sizes: readonly number[], templateBytes: number, from = 0): number {
  const most = Math.min(sizes.length - from, MAX_PART_ITEMS);
  let bytes = templateBytes;
  for (let count = 0; count < most; count++) {
    bytes += (sizes[from + count] ?? 0) + ITEM_RESERVE_BYTES;
    if (bytes > MAX_PART_BYTES) return Math.max(1, count);
  }
  return most;
}

/** Numbers of items of the parts that items would be packed in. */
export function partSizes(sizes: readonly number[], templateBytes: number): number[] {
  const parts: number[] = [];
  for (let from = 0; from < sizes.length;) {
    const count = countForPart(sizes, templateBytes, from);
    parts.push(count);
    from += count;
  }
  return parts;
}

/** What is wrong with a batch that would come to more than {@link MAX_PARTS} parts. */
export function tooManyParts(input: UncheckedBatchInput): InputIssue {
  const message = `the batch is too long: it would have more than ${MAX_PARTS} parts; divide it into several batches`;
  return { field: 'items' in input ? 'items' : 'jobIds', message };
}
