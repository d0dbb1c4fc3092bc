import { hash64, utf8Length } from '../common/index.js';
import type { FollowUpInput, InputIssue } from '../contract/index.js';
import { type ExpectedItem, templateOf, type UncheckedBatchInput, unfilledItemsOf } from '../protocol/index.js';

/**
 * Most items in a part. Each costs about 10 events, so that a part stays below the 10,240 events at which the server
 * warns, and never has to continue as new.
 */
export const MAX_PART_ITEMS = 500;
/** The server accepts at most 2,000 children of a workflow. */
export const MAX_PARTS = 800;
/** Most bytes of JSON in a part. The server warns of payloads above 512 KiB; the rest is for other fields. */
const MAX_PART_BYTES = 448 * 1_024;
/**
 * Most bytes in the inputs of a part's follow-ups, each with the whole template. A part may start all of them in one
 * workflow task, which can hold 4 MiB.
 */
const MAX_START_BYTES = 2 * 1_024 * 1_024;
/** Most bytes in the templates of all parts. A batch with a list of jobs starts its parts in one run. */
const MAX_TEMPLATES_BYTES = 16 * 1_024 * 1_024;
/** Bytes that the start of a follow-up has besides its input: ids, search attributes, memo and summary. */
const START_RESERVE_BYTES = 800;

export function jsonBytes(value: unknown): number {
  // Despite its type, `JSON.stringify` returns no text for `undefined`.
  const text: unknown = JSON.stringify(value);
  return typeof text === 'string' ? utf8Length(text) : 0;
}

/** Divides items into parts by their sizes in bytes. Returns the number of items in each part. */
export function partSizes(sizes: readonly number[], templateBytes: number, maxItems = MAX_PART_ITEMS): number[] {
  const parts: number[] = [];
  let [bytes, startBytes] = [Infinity, Infinity];
  for (const size of sizes) {
    const itemStartBytes = size + START_RESERVE_BYTES + templateBytes;
    bytes += size;
    startBytes += itemStartBytes;
    const last = parts.at(-1) ?? 0;
    if (bytes <= MAX_PART_BYTES && startBytes <= MAX_START_BYTES && last < maxItems) parts[parts.length - 1] = last + 1;
    else {
      parts.push(1);
      bytes = templateBytes + size;
      startBytes = itemStartBytes;
    }
  }
  return parts;
}

/**
 * The issue with a batch whose parts are too many or too large to start from one workflow, if there is one.
 *
 * @param template of its parts
 * @param pieces the items as they are added: each piece is divided separately
 */
export function tooManyParts(
  input: UncheckedBatchInput,
  template: Record<string, unknown> = templateOf(input),
  pieces: readonly (readonly unknown[])[] = [unfilledItemsOf(input)],
): InputIssue | undefined {
  const templateBytes = jsonBytes(template);
  const parts = pieces.reduce((sum, items) => sum + partSizes(items.map(jsonBytes), templateBytes).length, 0);
  if (parts <= MAX_PARTS && parts * templateBytes <= MAX_TEMPLATES_BYTES) return undefined;
  const message = `the batch is too long: it would have more than ${MAX_PARTS} parts, or parts of more than 16 MiB; divide it into several batches`;
  return { field: 'items' in input ? 'items' : 'jobIds', message };
}

export function hashOfItems({ template, items }: { template: Record<string, unknown>; items: unknown[] }): string {
  return hash64(JSON.stringify([template, items]));
}

/** Covers all fields of an item, in any order. */
export function hashOfItem(item: unknown): string {
  const fields = Object.entries(item ?? {}).sort(([one], [other]) => (one < other ? -1 : 1));
  return hash64(JSON.stringify(fields));
}

export function expectationOf(input: unknown): ExpectedItem {
  return { hash: hashOfItem(input), mayAssume: (input as FollowUpInput).onUnknownDelivery === 'assumeSent' };
}
