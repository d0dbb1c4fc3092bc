// The items of a batch, before they are checked. Not part of the published contract.
import {
  type BatchOptions,
  boundedIssues,
  type FollowUpBatchInput,
  followUpInputSchema,
  type Parsed,
  parseInput,
  uncheckedItemsSchema,
  uncheckedJobIdsSchema,
} from '../contract/index.js';

/** An input with unchecked items: an invalid item fails alone. */
export type UncheckedBatchInput = BatchOptions &
  ({ items: unknown[] } | { projectId: string; prompt: string; jobIds: unknown[] });

const uncheckedSchemas = { items: uncheckedItemsSchema, jobIds: uncheckedJobIdsSchema };

/** Checks a batch's input with all its items, and names every invalid field, such as `items.3.prompt`. */
export function parseBatchInput(input: unknown): Parsed<FollowUpBatchInput> {
  const unchecked = parseUncheckedBatchInput(input);
  if (!unchecked.ok) return unchecked;
  const list = 'jobIds' in unchecked.value ? 'jobIds' : 'items';
  const issues = batchItemsOf(unchecked.value).flatMap((item, index) => {
    const parsed = parseInput(followUpInputSchema, item);
    const found = parsed.ok ? [] : parsed.issues;
    return found.map(({ field, message }) => ({
      field: list === 'items' && field ? `items.${index}.${field}` : `${list}.${index}`,
      message,
    }));
  });
  return issues.length > 0
    ? { ok: false, issues: boundedIssues(issues) }
    : { ok: true, value: input as FollowUpBatchInput };
}

/** Like {@link parseBatchInput}, but without checking the items, as the workflow does. */
export function parseUncheckedBatchInput(input: unknown): Parsed<UncheckedBatchInput> {
  const field = isObject(input) && !('items' in input) && 'jobIds' in input ? 'jobIds' : 'items';
  const parsed = parseInput<unknown>(uncheckedSchemas[field], input);
  if (!parsed.ok) return parsed;
  const value = input as UncheckedBatchInput;
  if (value.open || unfilledItemsOf(value).length > 0) return { ok: true, value };
  return { ok: false, issues: [{ field, message: 'must not be empty, unless open is true' }] };
}

/** The fields that all items of a batch share: the `batch` lane, `defaults`, and the one prompt for many jobs. */
export function templateOf(input: UncheckedBatchInput): Record<string, unknown> {
  const common = 'items' in input ? {} : { projectId: input.projectId, prompt: input.prompt };
  return { lane: 'batch', ...withoutNulls(input.defaults ?? {}), ...common };
}

/** The items of a batch without the fields that they share. */
export function unfilledItemsOf(input: UncheckedBatchInput): unknown[] {
  return 'items' in input ? input.items : input.jobIds.map((jobId) => ({ jobId }));
}

/** The items of a batch with all their fields: inputs of `followUp`, if they are valid. */
export function batchItemsOf(input: UncheckedBatchInput): unknown[] {
  const template = templateOf(input);
  return unfilledItemsOf(input).map((item) => fillItem(item, template));
}

/**
 * An item as its follow-up receives it. The item's own fields take precedence; `poll` is one field and is not merged.
 */
export function fillItem(item: unknown, template: Record<string, unknown>): unknown {
  return isObject(item) ? { ...template, ...withoutNulls(item) } : item;
}

function withoutNulls(fields: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
