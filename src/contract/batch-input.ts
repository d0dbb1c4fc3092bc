import { z } from 'zod';
import { followUpDefaultsSchema, followUpInputSchema, promptSchema, type FollowUpInput } from './follow-up-input.js';
import { idSchema } from './ids.js';
import type { InputIssue } from './failures.js';
import { boundedIssues, parseInput, type Parsed } from './validation.js';

/** Follow-ups of a batch that are open at once where `maxOpen` does not say. */
export const DEFAULT_MAX_OPEN = 50;
/** Most that `maxOpen` may say. The server takes 2,000 children of one workflow. */
export const MAX_MAX_OPEN = 500;
/** Most bytes of JSON in one `addItems`, 256 KiB; a single item may be larger. */
export const MAX_PIECE_BYTES = 262_144;

/** Settings for every item that does not say otherwise: any field of an input but ids and prompt. */
export type FollowUpDefaults = Omit<FollowUpInput, 'projectId' | 'jobId' | 'prompt'>;

/** Settings of a batch beside its items. */
export interface BatchOptions {
  /** Most follow-ups that are open at a time: started and not ended. @default 50 */
  maxOpen?: number | undefined;
  /** For every item that does not say otherwise. @default `{ lane: 'batch' }` */
  defaults?: FollowUpDefaults | undefined;
  /** More items come by the update `addItems`, until the update `seal`. */
  open?: true | undefined;
}

/** Input of the `followUpBatch` workflow: a list of follow-ups, or one prompt for many jobs of a project. */
export type FollowUpBatchInput = BatchOptions &
  ({ items: FollowUpInput[] } | { projectId: string; prompt: string; jobIds: string[] });

/** An input whose items are not looked at yet: a bad one is an error of that item alone. */
export type UncheckedBatchInput = BatchOptions &
  ({ items: unknown[] } | { projectId: string; prompt: string; jobIds: unknown[] });

const maxOpenRule = `must be a whole number from 1 to ${MAX_MAX_OPEN}`;

const optionFields = () => ({
  maxOpen: z.int(maxOpenRule).min(1, maxOpenRule).max(MAX_MAX_OPEN, maxOpenRule).optional(),
  defaults: followUpDefaultsSchema.optional(),
  open: z.literal(true, 'must be true, or left out').optional(),
});

const listSchema = (item: z.ZodType) => z.strictObject({ items: z.array(item), ...optionFields() });

const jobsSchema = (jobId: z.ZodType) =>
  z.strictObject({ projectId: idSchema, prompt: promptSchema, jobIds: z.array(jobId), ...optionFields() });

/**
 * Schema of {@link FollowUpBatchInput}, for JSON Schema. {@link parseBatchInput} says better what is wrong. A function,
 * for follow-ups, which load this module too, have no use for it.
 */
export function followUpBatchInputSchema(): z.ZodType {
  return z.union([listSchema(followUpInputSchema), jobsSchema(idSchema)]);
}

/**
 * Checks a batch's input, every item included, and names every bad field, such as `items.3.prompt`. Items are looked at
 * with `defaults` filled in.
 */
export function parseBatchInput(input: unknown): Parsed<FollowUpBatchInput> {
  const unchecked = parseUncheckedBatchInput(input);
  if (!unchecked.ok) return unchecked;
  const name = 'items' in unchecked.value ? 'items' : 'jobIds';
  const issues: InputIssue[] = [];
  for (const [index, item] of batchItemsOf(unchecked.value).entries()) {
    const parsed = parseInput(followUpInputSchema, item);
    if (parsed.ok) continue;
    for (const { field, message } of parsed.issues) {
      const path = name === 'jobIds' ? [name, index] : field ? [name, index, field] : [name, index];
      issues.push({ field: path.join('.'), message });
    }
  }
  return issues.length > 0
    ? { ok: false, issues: boundedIssues(issues) }
    : { ok: true, value: input as FollowUpBatchInput };
}

/** As {@link parseBatchInput}, but each item may be anything: what the workflow itself requires. */
export function parseUncheckedBatchInput(input: unknown): Parsed<UncheckedBatchInput> {
  const isForJobs = typeof input === 'object' && input !== null && !('items' in input) && 'jobIds' in input;
  const parsed = parseInput<unknown>(isForJobs ? jobsSchema(z.unknown()) : listSchema(z.unknown()), input);
  if (!parsed.ok) return parsed;
  const value = input as UncheckedBatchInput;
  const count = 'items' in value ? value.items.length : value.jobIds.length;
  if (count > 0 || value.open) return { ok: true, value };
  const field = isForJobs ? 'jobIds' : 'items';
  return { ok: false, issues: [{ field, message: 'must not be empty, unless open is true' }] };
}

/** What every item of a batch has in common: the `batch` lane, `defaults`, and the one prompt for many jobs. */
export function templateOf(input: UncheckedBatchInput): Record<string, unknown> {
  const common = 'items' in input ? {} : { projectId: input.projectId, prompt: input.prompt };
  return { lane: 'batch', ...input.defaults, ...common };
}

/** The items of a batch without what they have in common. */
export function unfilledItemsOf(input: UncheckedBatchInput): unknown[] {
  return 'items' in input ? input.items : input.jobIds.map((jobId) => ({ jobId }));
}

/** The items of a batch whole: as inputs of `followUp`, unless they are bad. */
export function batchItemsOf(input: UncheckedBatchInput): unknown[] {
  const template = templateOf(input);
  return unfilledItemsOf(input).map((item) => fillItem(item, template));
}

/** An item of a list with `defaults` filled in. */
export function withDefaults(item: unknown, defaults: FollowUpDefaults = {}): unknown {
  return fillItem(item, { lane: 'batch', ...defaults });
}

/** An item as its follow-up gets it. A field is taken whole from the one or the other, `poll` too. */
export function fillItem(item: unknown, template: Record<string, unknown>): unknown {
  return isObject(item) ? { ...template, ...item } : item;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
