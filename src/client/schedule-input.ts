import { z } from 'zod';
import {
  batchItemKey,
  durationSchema,
  type FollowUpBatchInput,
  followUpBatchWorkflowId,
  idSchema,
  type InputIssue,
  parseBatchInput,
  parseInput,
  workflowIdIssue,
} from '../contract/index.js';
import { InvalidInputError } from './errors.js';
import { boundedIssues } from '../contract/validation.js';
import { scheduleOverlaps } from '../contract/choices.js';

/** What Temporal puts behind the workflow id of each firing: the time it was due, to the second. */
const FIRING_SUFFIX_LENGTH = '-2026-11-21T02:00:00Z'.length;

/** Longest id of a batch is 120 characters, and a firing's is made of the schedule's name and its time. */
const MAX_NAME_LENGTH = 120 - FIRING_SUFFIX_LENGTH;

/**
 * Most bytes of a schedule's batch as JSON, 256 KiB. Temporal carries it in the schedule, and hands it to each firing
 * in one payload, of which it warns at 512 KiB.
 */
const MAX_SCHEDULE_INPUT_BYTES = 262_144;

/** Name of a schedule, which is its schedule id in Temporal, too. */
export const scheduleNameSchema = idSchema.refine(
  (name) => name.length <= MAX_NAME_LENGTH,
  `must be at most ${MAX_NAME_LENGTH} characters: with the time of a firing it makes the id of a batch`,
);

const CRON_RULE =
  'must be minute, hour, day of month, month and day of week, such as "0 2 * * MON-FRI", or one of @hourly, @daily, @weekly, @monthly, @yearly';

const cronSchema = z
  .string()
  .trim()
  .regex(
    /^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|[A-Za-z0-9*,/-]+( +[A-Za-z0-9*,/-]+){4})$/,
    CRON_RULE,
  );

const timeZoneSchema = z.string().transform((name, context) => {
  const zone = canonicalTimeZone(name);
  if (zone === undefined) context.addIssue({ code: 'custom', message: 'must be a time zone such as "Europe/Berlin"' });
  return zone ?? z.NEVER;
});

const WHOLE_SECONDS = 'must be whole seconds';
const isWholeSeconds = (ms: number) => ms % 1_000 === 0;

/** An instant as ISO 8601 with `Z` or an offset; gives it in UTC. */
export const instantSchema = z.iso
  .datetime({ offset: true, error: 'must be ISO 8601 with its zone, such as "2026-12-01T02:00:00Z"' })
  .transform((text) => new Date(text).toISOString());

/** A remark for people, shown with the schedule. */
export const scheduleNoteSchema = z.string().min(1, 'must not be empty').max(500, 'must be at most 500 characters');

const createSchema = z
  .strictObject({
    /** Unique in the namespace; 1 to 99 characters. */
    name: scheduleNameSchema,
    /** When to fire: 5 fields, or `@daily` and the like. Day of month and day of week must both match. */
    cron: cronSchema.optional(),
    /** Or in which interval, counted from 1970-01-01T00:00:00Z; 1 s to 365 d, whole seconds. */
    every: durationSchema('1s', '365d').refine(isWholeSeconds, WHOLE_SECONDS).optional(),
    /** With `every`: how long after each interval's begin; below `every`. @default 0 */
    offset: durationSchema('0s', '365d').refine(isWholeSeconds, WHOLE_SECONDS).optional(),
    /**
     * With `cron`: whose clock it means. A time that daylight saving leaves out does not fire on that day; one that it
     * repeats fires once in some zones and twice in others. Upper and lower case are the same. @default 'UTC'
     */
    timeZone: timeZoneSchema.optional(),
    /** What a firing does while the previous one still runs. @default 'skip' */
    overlap: z.enum(scheduleOverlaps).optional(),
    /** How late a firing may be made good after an outage of Temporal, 10 s to 365 d. @default '1h' */
    catchUpWindow: durationSchema('10s', '365d').optional(),
    /** Each firing is late by a random time up to this one, and never later than the next is due. @default 0 */
    jitter: durationSchema('0s', '24h').optional(),
    /** No firing before. ISO 8601 with a zone. */
    startAt: instantSchema.optional(),
    /** No firing after. ISO 8601 with a zone. */
    endAt: instantSchema.optional(),
    /** Firings until it is done; triggers and backfills do not count. @default no limit */
    limit: z
      .int('must be a whole number')
      .min(1, 'must be from 1')
      .max(1_000_000, 'must be at most 1000000')
      .optional(),
    /** Shown with the schedule. At most 500 characters. */
    note: scheduleNoteSchema.optional(),
    /** Whether it waits to be resumed. @default false */
    paused: z.boolean().optional(),
    /** The batch of each firing. Its default lane is `batch`. At most 256 KiB of JSON. */
    input: z.unknown(),
  })
  .superRefine(({ cron, every, offset, timeZone, startAt, endAt }, context) => {
    const issue = (field: string, message: string) => {
      context.addIssue({ code: 'custom', path: [field], message });
    };
    if (cron === undefined && every === undefined) issue('cron', 'either cron or every is required');
    if (cron !== undefined && every !== undefined) issue('every', 'must be omitted when cron is given');
    if (offset !== undefined && every === undefined) issue('offset', 'goes with every');
    if (offset !== undefined && every !== undefined && offset >= every) issue('offset', 'must be below every');
    if (timeZone !== undefined && cron === undefined) {
      issue('timeZone', 'applies to cron only: intervals count from 1970-01-01T00:00:00Z in every zone');
    }
    if (
      endAt !== undefined &&
      Date.parse(endAt) <= Math.max(Date.now(), startAt === undefined ? 0 : Date.parse(startAt))
    ) {
      issue('endAt', 'must be later than now and startAt');
    }
  });

/** A schedule to create. */
export type CreateScheduleInput = z.input<typeof createSchema> & { input: FollowUpBatchInput };

/** A schedule's settings, checked, with every duration in milliseconds. It is a {@link CreateScheduleInput}, too. */
export type ScheduleSettings = z.output<typeof createSchema> & { input: FollowUpBatchInput };

/**
 * Checks everything that a schedule needs, its whole batch included.
 *
 * @param input an unchecked {@link CreateScheduleInput}
 * @throws InvalidInputError naming every bad field
 */
export function parseCreateScheduleInput(input: unknown): ScheduleSettings {
  const schedule = parseInput(createSchema, input);
  const batch = parseBatchInput(
    typeof input === 'object' && input !== null && 'input' in input ? input.input : undefined,
  );
  const batchIssues = batch.ok
    ? [...unfitIssues(batch.value), ...(schedule.ok ? idIssues(schedule.value.name, batch.value) : [])]
    : batch.issues;
  const issues = [
    ...(schedule.ok ? [] : schedule.issues),
    ...batchIssues.map(({ field, message }) => ({ field: field ? `input.${field}` : 'input', message })),
  ];
  if (!schedule.ok || !batch.ok || issues.length > 0) throw new InvalidInputError(issues);
  return { ...schedule.value, input: batch.value };
}

/** What a batch may be, but not the batch of a schedule. */
function unfitIssues(input: FollowUpBatchInput): InputIssue[] {
  const bytes = Buffer.byteLength(JSON.stringify(input));
  return [
    ...(input.open === undefined
      ? []
      : [{ field: 'open', message: 'must be omitted: nobody would add items to the batch or seal it' }]),
    ...(bytes <= MAX_SCHEDULE_INPUT_BYTES
      ? []
      : [
          {
            field: '',
            message: `must be at most ${MAX_SCHEDULE_INPUT_BYTES} bytes of JSON in a schedule (it has ${bytes}); make it several schedules, or give one prompt and jobIds instead of items`,
          },
        ]),
  ];
}

/** Follow-ups whose workflow id would be too long, with the key that a firing gives them. */
function idIssues(name: string, input: FollowUpBatchInput): InputIssue[] {
  const batchId = firingBatchId(name, new Date(0));
  const list = 'items' in input ? 'items' : 'jobIds';
  const items = 'items' in input ? input.items : input.jobIds.map((jobId) => ({ projectId: input.projectId, jobId }));
  const issues = items.flatMap(({ projectId, jobId }, index) => {
    const issue = workflowIdIssue({ projectId, jobId, key: batchItemKey(batchId, index) });
    return issue ? [{ field: `${list}.${index}.${issue.field}`, message: issue.message }] : [];
  });
  return boundedIssues(issues);
}

/**
 * The zone as the server spells it, which is case-sensitive; `undefined` if there is no such zone. Offsets such as
 * `+01:00`, which `Intl` accepts, are not zones for the server.
 */
function canonicalTimeZone(name: string): string | undefined {
  if (!/^[A-Za-z]/.test(name)) return undefined;
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions();
    // `Intl` may replace an alias, such as Asia/Kolkata by Asia/Calcutta. The server knows both, but only the second is
    // sure to be spelled right.
    const isAlias = timeZone.toLowerCase() !== name.toLowerCase();
    return isAlias && isSpelledAsZone(name) ? name : timeZone;
  } catch {
    return undefined;
  }
}

/** Whether each part of the name begins with a capital, as in the names of all zones. */
function isSpelledAsZone(name: string): boolean {
  return name.split('/').every((part) => /^[A-Z]/.test(part));
}

/**
 * Id of the batch that a schedule starts for the time it was due at, jitter left out: `nightly-2026-11-21T02:00:00Z`.
 */
export function firingBatchId(name: string, dueAt: Date): string {
  return `${name}-${dueAt.toISOString().slice(0, 19)}Z`;
}

/** Its workflow id. Temporal makes it of the action's workflow id and the time; this has to agree with that. */
export function firingWorkflowId(name: string, dueAt: Date): string {
  return followUpBatchWorkflowId({ batchId: firingBatchId(name, dueAt) });
}
