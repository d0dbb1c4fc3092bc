import { z } from 'zod';
import {
  followUpDefaultsSchema,
  type FollowUpInput,
  followUpInputSchema,
  notifySchema,
  promptSchema,
} from './follow-up-input.js';
import { idSchema } from './ids.js';

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

const listSchema = (item: z.ZodType) => z.strictObject({ items: z.array(item), ...optionsSchema.shape });
const jobsSchema = (jobId: z.ZodType) =>
  z.strictObject({ projectId: idSchema, prompt: promptSchema, jobIds: z.array(jobId), ...optionsSchema.shape });

/** Schema of {@link FollowUpBatchInput} for JSON Schema. The library gives better messages. */
export const followUpBatchInputSchema: z.ZodType = z.union([listSchema(followUpInputSchema), jobsSchema(idSchema)]);

/** A batch as a list whose items are not checked: an invalid item fails alone. */
export const uncheckedItemsSchema = listSchema(z.unknown());
/** The same as one prompt for many jobs. */
export const uncheckedJobIdsSchema = jobsSchema(z.unknown());
