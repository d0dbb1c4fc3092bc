import { z } from 'zod';
import {
  type Lane,
  lanes,
  type UnknownDeliveryAction,
  unknownDeliveryActions,
  type WhenActiveAction,
  whenActiveActions,
} from './choices.js';
import { durationSchema } from './durations.js';
import { idSchema } from './ids.js';
import { utf8Length } from './text.js';

/** Longest prompt, in bytes of UTF-8: 256 KiB. */
export const MAX_PROMPT_BYTES = 262_144;

const pollSchema = z.strictObject({
  /** Wait before the first poll. @default '5s' */
  initialInterval: durationSchema('100ms', '1h').optional(),
  /** Longest wait between two polls; at least `initialInterval`. @default '60s' */
  maxInterval: durationSchema('100ms', '365d').optional(),
  /** Each wait is this many times as long as the one before. @default 1.5 */
  backoffCoefficient: z.number().min(1, 'must be from 1 to 10').max(10, 'must be from 1 to 10').optional(),
});

/** A message: 1 character to 256 KiB of UTF-8. */
export const promptSchema = z
  .string()
  .min(1, 'must not be empty')
  .refine((prompt) => utf8Length(prompt) <= MAX_PROMPT_BYTES, `must be at most ${MAX_PROMPT_BYTES} bytes of UTF-8`);

const baseSchema = z.strictObject({
  /** The job's project, whose budget is used. */
  projectId: idSchema,
  jobId: idSchema,
  /** The follow-up instruction, 1 character to 256 KiB of UTF-8. */
  prompt: promptSchema,
  /** @default 'interactive' */
  lane: z.enum(lanes).optional(),
  /** What to do if nobody can tell whether the message was delivered. @default 'fail' */
  onUnknownDelivery: z.enum(unknownDeliveryActions).optional(),
  /** Whether to wait for a job that somebody else keeps active, or to send at once. @default 'wait' */
  whenActive: z.enum(whenActiveActions).optional(),
  poll: pollSchema.optional(),
  /** How long after the send an unchanged terminal status is ignored. @default '120s' */
  settleTime: durationSchema('0s', '1h').optional(),
  /** Longest wait for the job, from the send. @default '24h' */
  jobTimeout: durationSchema('1s', '365d').optional(),
  /** Longest wait for everything before the send. @default '7d' */
  budgetWaitTimeout: durationSchema('1s', '365d').optional(),
});

/** What a batch may set for all of its items. */
export const followUpDefaultsSchema = baseSchema.omit({ projectId: true, jobId: true, prompt: true });

/** A follow-up's settings with every default filled in and every duration in milliseconds. */
export interface FollowUpSettings {
  projectId: string;
  jobId: string;
  prompt: string;
  lane: Lane;
  onUnknownDelivery: UnknownDeliveryAction;
  whenActive: WhenActiveAction;
  poll: { initialIntervalMs: number; maxIntervalMs: number; backoffCoefficient: number };
  settleTimeMs: number;
  jobTimeoutMs: number;
  budgetWaitTimeoutMs: number;
}

/** Input of the `followUp` workflow. Accepts {@link FollowUpInput} and gives {@link FollowUpSettings}. */
export const followUpInputSchema = baseSchema.transform((input, context): FollowUpSettings => {
  const initialIntervalMs = input.poll?.initialInterval ?? 5_000;
  const maxIntervalMs = input.poll?.maxInterval ?? Math.max(60_000, initialIntervalMs);
  if (maxIntervalMs < initialIntervalMs) {
    context.addIssue({
      code: 'custom',
      path: ['poll', 'maxInterval'],
      message: 'must be at least poll.initialInterval',
    });
  }
  return {
    projectId: input.projectId,
    jobId: input.jobId,
    prompt: input.prompt,
    lane: input.lane ?? 'interactive',
    onUnknownDelivery: input.onUnknownDelivery ?? 'fail',
    whenActive: input.whenActive ?? 'wait',
    poll: { initialIntervalMs, maxIntervalMs, backoffCoefficient: input.poll?.backoffCoefficient ?? 1.5 },
    settleTimeMs: input.settleTime ?? 120_000,
    jobTimeoutMs: input.jobTimeout ?? 86_400_000,
    budgetWaitTimeoutMs: input.budgetWaitTimeout ?? 604_800_000,
  };
});

/** Input of the `followUp` workflow, as callers write it. Durations are milliseconds or text such as `"90s"`. */
export type FollowUpInput = z.input<typeof followUpInputSchema>;
