import { z } from 'zod';
import {
  followUpDefaultsSchema,
  type FollowUpInput,
  followUpInputSchema,
  notifySchema,
  promptSchema,
} from './follow-up-input.js';
import { idSchema } from './ids.js';
import { boundedIssues, type Parsed, parseInput } from './validation.js';

export const DEFAULT_MAX_OPEN = 50;
/** The server accepts at most 2,000 children of a workflow. */
export const MAX_MAX_OPEN = 500;
/** Most bytes of JSON in one `addItems`: 256 KiB. A single item may be larger. */
export const MAX_PIECE_BYTES = 262_144;
/** A batch itself holds the outcomes of its first 500 items. */
export const MAX_CANARY = 500;

/** Defaults for all items of a batch: any field of an input except ids and prompt. */
export type FollowUpDefaults = Omit<FollowUpInput, 'projectId' | 'jobId' | 'prompt'>;

const maxOpenRule = `must be a whole number from 1 to ${MAX_MAX_OPEN}`;
const canaryRule = `must be a whole number from 1 to ${MAX_CANARY}`;
const maxFailuresRule = 'must be a whole number from 0, or a share from "0%" to "100%"';

const optionsSchema = z.strictObject({
  /** Most follow-ups open at a time. @default 50 */
  maxOpen: z.int(maxOpenRule).min(1, maxOpenRule).max(MAX_MAX_OPEN, maxOpenRule).nullish(),
  /** Fill in fields that items leave out. @default `{ lane: 'batch' }` */
  defaults: followUpDefaultsSchema.nullish(),
  /** Whether the update `addItems` adds more items, until the update `seal`. */
  open: z.literal(true, 'must be true, or left out').nullish(),
  /** Starts only the first 1 to 500 items. When they have ended, the batch is held until the update `continueBatch`. */
  canary: z.int(canaryRule).min(1, canaryRule).max(MAX_CANARY, canaryRule).nullish(),
  /**
   * Failures after which the batch is held: a number from 0, or a share of the items so far such as `"5%"`. Counts
   * failed agent jobs and items without a result, except cancelled ones. `continueBatch` resets the count.
   */
  maxFailures: z
    .union(
      [z.int(maxFailuresRule).min(0, maxFailuresRule), z.string().regex(/^(100|\d{1,2}(\.\d+)?)%$/, maxFailuresRule)],
      maxFailuresRule,
    )
    .nullish(),
  /**
   * Webhook targets to notify when the batch is held and when it ends, by their names in the worker's settings. In
   * `defaults`, it applies to the end of each item instead.
   */
  notify: notifySchema.nullish(),
});

/** Settings of a batch, without its items. */
export type BatchOptions = z.input<typeof optionsSchema>;

/** Input of the `followUpBatch` workflow: a list of follow-ups, or one prompt for many jobs of a project. */
export type FollowUpBatchInput = BatchOptions &
  ({ items: FollowUpInput[] } | { projectId: string; prompt: string; jobIds: string[] });

/** An input with unchecked items: an invalid item fails alone. */
export type UncheckedBatchInput = BatchOptions &
  ({ items: unknown[] } | { projectId: string; prompt: string; jobIds: unknown[] });

const listSchema = (item: z.ZodType) => z.strictObject({ items: z.array(item), ...optionsSchema.shape });
const jobsSchema = (jobId: z.ZodType) =>
  z.strictObject({ projectId: idSchema, prompt: promptSchema, jobIds: z.array(jobId), ...optionsSchema.shape });

/** Schema of {@link FollowUpBatchInput} for JSON Schema. {@link parseBatchInput} gives better messages. */
export const followUpBatchInputSchema: z.ZodType = z.union([listSchema(followUpInputSchema), jobsSchema(idSchema)]);
const uncheckedSchemas = { items: listSchema(z.unknown()), jobIds: jobsSchema(z.unknown()) };

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
