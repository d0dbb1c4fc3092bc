import { z } from 'zod';
import { object, utf8Length } from '../common/index.js';
import { lanes, unknownDeliveryActions, whenActiveActions } from './choices.js';
import { durationSchema, parseDurationMs } from './durations.js';
import { idSchema } from './ids.js';

/** Longest prompt, in bytes of UTF-8: 256 KiB. */
export const MAX_PROMPT_BYTES = 262_144;

/** An optional field of an input. Bounds are inclusive. */
interface Setting {
  default: string | number;
  min?: string | number;
  max?: string | number;
  meaning: string;
}

/** Source of the schema below, the JSON Schemas and the table in docs/reference/inputs.md. */
export const followUpSettings = {
  lane: { default: 'interactive', meaning: '`interactive` goes before `batch`' },
  onUnknownDelivery: {
    default: 'fail',
    meaning:
      'what to do if the delivery is unknown: `fail`; `assumeSent`, treat the message as sent; `resend`, send it once more and risk a second delivery',
  },
  whenActive: {
    default: 'wait',
    meaning:
      'what to do if the job works on another message: `wait` for it, or `send` anyway, which steers the running agent',
  },
  'poll.initialInterval': { default: '5s', min: '100ms', max: '1h', meaning: 'wait before the first poll' },
  'poll.maxInterval': {
    default: '60s',
    min: '100ms',
    max: '365d',
    meaning:
      'longest wait between two polls; at least `poll.initialInterval`, which is also the default if that is longer',
  },
  'poll.backoffCoefficient': {
    default: 1.5,
    min: 1,
    max: 10,
    meaning: 'each wait is this many times the previous one',
  },
  settleTime: {
    default: '120s',
    min: '0s',
    max: '1h',
    meaning: 'how long after the send an unchanged terminal status is ignored',
  },
  prLinkGrace: {
    default: '30s',
    min: '0s',
    max: '1h',
    meaning: 'how long to keep polling a completed job without a new `prLink`',
  },
  jobTimeout: { default: '24h', min: '1s', max: '365d', meaning: 'longest wait for the job, from the send' },
  budgetWaitTimeout: { default: '7d', min: '1s', max: '365d', meaning: 'longest wait for everything before the send' },
} as const satisfies Record<string, Setting>;

/** `null` counts as missing, because some languages write every field. */
const duration = ({ min, max }: { min: string; max: string }) => durationSchema(min, max).nullish();

const defaultMs = ({ default: text }: { default: string }) => parseDurationMs(text) ?? 0;

const { min: minCoefficient, max: maxCoefficient } = followUpSettings['poll.backoffCoefficient'];
const coefficientRule = `must be from ${minCoefficient} to ${maxCoefficient}`;

const pollSchema = object({
  /** Wait before the first poll. @default '5s' */
  initialInterval: duration(followUpSettings['poll.initialInterval']),
  /** Longest wait between two polls; at least `initialInterval`. @default '60s' */
  maxInterval: duration(followUpSettings['poll.maxInterval']),
  /** Each wait is this many times the previous one. @default 1.5 */
  backoffCoefficient: z.number().min(minCoefficient, coefficientRule).max(maxCoefficient, coefficientRule).nullish(),
}).strict();

/** Schema of a prompt. A lone surrogate has no UTF-8 encoding. */
export const promptSchema = z
  .string()
  .min(1, { error: 'must not be empty', abort: true })
  .regex(/\S/, 'must not be only white space')
  .refine((prompt) => !/\p{Surrogate}/u.test(prompt), 'must be Unicode text: it has a lone surrogate')
  .refine((prompt) => utf8Length(prompt) <= MAX_PROMPT_BYTES, `must be at most ${MAX_PROMPT_BYTES} bytes of UTF-8`);

const targetNameRule = 'must be 1 to 64 of A-Z a-z 0-9 _ -, not starting with -';
/** Name of a webhook target in the worker's settings. */
export const targetNameSchema = z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$/, targetNameRule);
const MAX_NOTIFIED = 10;

/** Names of the webhook targets to notify. */
export const notifySchema = z.array(targetNameSchema).max(MAX_NOTIFIED, `must be at most ${MAX_NOTIFIED} names`);

const baseSchema = object({
  /** The job's project, whose budget applies. */
  projectId: idSchema,
  jobId: idSchema,
  /** The message, 1 character to 256 KiB of UTF-8, not only white space. */
  prompt: promptSchema,
  /** @default 'interactive' */
  lane: z.enum(lanes).nullish(),
  /** What to do if the delivery is unknown. @default 'fail' */
  onUnknownDelivery: z.enum(unknownDeliveryActions).nullish(),
  /** Whether to wait while the job works on another message, or to send at once. @default 'wait' */
  whenActive: z.enum(whenActiveActions).nullish(),
  poll: pollSchema.nullish(),
  /** How long after the send an unchanged terminal status is ignored. @default '120s' */
  settleTime: duration(followUpSettings.settleTime),
  /** How long to keep polling a completed job without a new `prLink`. @default '30s' */
  prLinkGrace: duration(followUpSettings.prLinkGrace),
  /** Longest wait for the job, from the send. @default '24h' */
  jobTimeout: duration(followUpSettings.jobTimeout),
  /** Longest wait for everything before the send. @default '7d' */
  budgetWaitTimeout: duration(followUpSettings.budgetWaitTimeout),
  /** Webhook targets to notify of the end, by their names in the worker's settings. @default none */
  notify: notifySchema.nullish(),
}).strict();

/** Schema of the fields that a batch may set for all its items. */
export const followUpDefaultsSchema = baseSchema.omit({ projectId: true, jobId: true, prompt: true });

/** Schema of the `followUp` workflow's input. Accepts {@link FollowUpInput} and returns {@link FollowUpSettings}. */
export const followUpInputSchema = baseSchema.transform((input, context) => {
  const initialIntervalMs = input.poll?.initialInterval ?? defaultMs(followUpSettings['poll.initialInterval']);
  const defaultMaxMs = Math.max(defaultMs(followUpSettings['poll.maxInterval']), initialIntervalMs);
  const maxIntervalMs = input.poll?.maxInterval ?? defaultMaxMs;
  if (maxIntervalMs < initialIntervalMs) {
    const path = ['poll', 'maxInterval'];
    context.addIssue({ code: 'custom', path, message: 'must be at least poll.initialInterval' });
  }
  return {
    projectId: input.projectId,
    jobId: input.jobId,
    prompt: input.prompt,
    lane: input.lane ?? followUpSettings.lane.default,
    onUnknownDelivery: input.onUnknownDelivery ?? followUpSettings.onUnknownDelivery.default,
    whenActive: input.whenActive ?? followUpSettings.whenActive.default,
    poll: {
      initialIntervalMs,
      maxIntervalMs,
      backoffCoefficient: input.poll?.backoffCoefficient ?? followUpSettings['poll.backoffCoefficient'].default,
    },
    settleTimeMs: input.settleTime ?? defaultMs(followUpSettings.settleTime),
    prLinkGraceMs: input.prLinkGrace ?? defaultMs(followUpSettings.prLinkGrace),
    jobTimeoutMs: input.jobTimeout ?? defaultMs(followUpSettings.jobTimeout),
    budgetWaitTimeoutMs: input.budgetWaitTimeout ?? defaultMs(followUpSettings.budgetWaitTimeout),
  };
});

/**
 * Input of the `followUp` workflow. Durations are milliseconds or text, such as `"90s"`. Optional fields may be `null`.
 */
export type FollowUpInput = z.input<typeof followUpInputSchema>;

/** An input with every default filled in and durations in milliseconds. */
export type FollowUpSettings = z.output<typeof followUpInputSchema>;
