import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Backfill,
  type Client,
  type ScheduleDescription as TemporalDescription,
  ScheduleNotFoundError as TemporalScheduleNotFoundError,
} from '@temporalio/client';
import { type Timestamp, WorkflowNotFoundError } from '@temporalio/common';
import { z } from 'zod';
import { parseInput, WorkflowType } from '../contract/index.js';
import { FollowUpClientError, InvalidInputError } from './errors.js';
import { toOverlapPolicy } from './schedule-description.js';
import { firingBatchId, firingWorkflowId, instantSchema } from './schedule-input.js';
import { callTemporal, timestampMs } from './temporal-call.js';
import { type ScheduleOverlap, scheduleOverlaps } from '../contract/choices.js';

/** An error about one schedule. */
abstract class ScheduleError extends FollowUpClientError {
  constructor(
    readonly schedule: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Thrown when the name of a new schedule is taken. Nothing was changed. */
export class ScheduleExistsError extends ScheduleError {
  override readonly name = 'ScheduleExistsError' as const;

  constructor(schedule: string, options?: ErrorOptions) {
    super(
      schedule,
      `schedule ${schedule} already exists; run "follow-up schedule describe ${schedule}" to see it, and delete it before you reuse its name`,
      options,
    );
  }
}

/** Thrown when no schedule has that name: it never existed, was deleted, or had its last firing over a week ago. */
export class ScheduleNotFoundError extends ScheduleError {
  override readonly name = 'ScheduleNotFoundError' as const;

  constructor(schedule: string, options?: ErrorOptions) {
    super(schedule, `no schedule is named ${schedule}; run "follow-up schedule list" to see all schedules`, options);
  }
}

/** Thrown when the schedule of that name starts something other than batches of follow-ups. Nothing was changed. */
export class ForeignScheduleError extends ScheduleError {
  override readonly name = 'ForeignScheduleError' as const;

  constructor(
    schedule: string,
    readonly workflowType: string,
  ) {
    super(schedule, `schedule ${schedule} starts ${workflowType}, not batches of follow-ups; nothing was changed`);
  }
}

/** A schedule, and the client to reach it. */
export interface ScheduleTarget {
  client: Client;
  name: string;
}

/**
 * One call about a schedule.
 *
 * @throws ScheduleNotFoundError, TemporalUnreachableError
 */
export async function callSchedule<T>({ client, name }: ScheduleTarget, call: () => Promise<T>): Promise<T> {
  try {
    return await callTemporal(client, call);
  } catch (error) {
    if (!(error instanceof TemporalScheduleNotFoundError)) throw error;
    throw new ScheduleNotFoundError(name, { cause: error });
  }
}

/**
 * Temporal's description of a schedule of this project. Every order begins with it, since the namespace may have other
 * schedules as well.
 *
 * @throws ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
 */
export async function describeSchedule(target: ScheduleTarget): Promise<TemporalDescription> {
  const { client, name } = target;
  const described = await callSchedule(target, () => client.schedule.getHandle(name).describe());
  const { workflowType } = described.action;
  if (workflowType !== WorkflowType.followUpBatch) throw new ForeignScheduleError(name, workflowType);
  return described;
}

/** The server accepts a trigger at once, and carries it out within about 100 ms. */
const EFFECT_TIMEOUT_MS = 5_000;
const LOOK_INTERVAL_MS = 100;

/** A manual firing. */
export interface TriggeredFiring {
  /**
   * `started`; `skipped`: the previous firing still runs; `buffered`: it starts when that one has ended;
   * `accepted`: the server has accepted the trigger, but has not started it within 5 s.
   */
  outcome: 'started' | 'skipped' | 'buffered' | 'accepted';
  /** Id of the batch that it starts, or would have started. */
  batchId: string;
  workflowId: string;
}

/** See `ScheduleHandle.trigger`. */
export async function triggerSchedule(target: ScheduleTarget): Promise<TriggeredFiring> {
  const { client, name } = target;
  const before = await describeSchedule(target);
  const at = await freeSecond(target, before);
  const firing = { batchId: firingBatchId(name, at), workflowId: firingWorkflowId(name, at) };
  const { namespace, identity } = client.options;
  await callSchedule(target, () =>
    client.schedule.workflowService.patchSchedule({
      namespace,
      scheduleId: name,
      identity,
      requestId: randomUUID(),
      // Without an overlap policy of its own the schedule's counts. The SDK's `trigger` would say allow-all.
      patch: { triggerImmediately: { scheduledTime: toTimestamp(at.getTime()) } },
    }),
  );
  const deadlineMs = Date.now() + EFFECT_TIMEOUT_MS;
  do {
    const now = await describeSchedule(target);
    if (now.info.recentActions.some(({ action }) => action.workflow.workflowId === firing.workflowId)) {
      return { outcome: 'started', ...firing };
    }
    if (now.info.numActionsSkippedOverlap > before.info.numActionsSkippedOverlap)
      return { outcome: 'skipped', ...firing };
    if (bufferSize(now) > bufferSize(before)) return { outcome: 'buffered', ...firing };
    await sleep(LOOK_INTERVAL_MS);
  } while (Date.now() < deadlineMs);
  return { outcome: 'accepted', ...firing };
}

/**
 * The first second from now on without a firing. The batch's id contains the second: of two firings in the same one,
 * Temporal would silently drop one.
 */
async function freeSecond({ client, name }: ScheduleTarget, { info }: TemporalDescription): Promise<Date> {
  const due = new Set(info.nextActionTimes.map((time) => toSecond(time.getTime())));
  for (let atMs = toSecond(Date.now()); ; atMs += 1_000) {
    if (due.has(atMs)) continue;
    const at = new Date(atMs);
    try {
      await callTemporal(client, () => client.workflow.getHandle(firingWorkflowId(name, at)).describe());
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return at;
      throw error;
    }
  }
}

function toSecond(ms: number): number {
  return Math.floor(ms / 1_000) * 1_000;
}

/** An instant as Temporal's API has it. Its encoder takes a number for the seconds, which its types leave out. */
function toTimestamp(ms: number): Timestamp {
  const seconds = Math.floor(ms / 1_000);
  return { seconds, nanos: (ms - seconds * 1_000) * 1_000_000 } as unknown as Timestamp;
}

function bufferSize({ raw }: TemporalDescription): number {
  return raw.info?.bufferSize?.toNumber() ?? 0;
}

/** Most firings of one backfill unless `maxFirings` allows more. */
const DEFAULT_MAX_FIRINGS = 100;
/** The server returns at most 1,000 matching times: fewer are complete. */
export const MAX_BACKFILL_FIRINGS = 999;

const CONCURRENT_LOOKS = 16;

const backfillSchema = z
  .strictObject({
    /** The first time that counts. ISO 8601 with a zone. */
    from: instantSchema,
    /** The last time that counts, not later than now. */
    to: instantSchema.refine((to) => Date.parse(to) <= Date.now(), 'must not be later than now'),
    /** What a firing does while another one runs. @default 'buffer-all': one after another */
    overlap: z.enum(scheduleOverlaps).optional(),
    /** A range with more firings is refused. At most 999. @default 100 */
    maxFirings: z.int().min(1).max(MAX_BACKFILL_FIRINGS).optional(),
  })
  .refine(({ from, to }) => Date.parse(from) <= Date.parse(to), {
    path: ['to'],
    message: 'must not be earlier than from',
  });

/** A time range to fire for. */
export type BackfillInput = z.input<typeof backfillSchema>;

/** The firings of a backfill. Instants are ISO 8601 in UTC. */
export interface BackfilledRange {
  overlap: ScheduleOverlap;
  /** When the requested firings were due. They start soon. */
  firings: string[];
  /** Times of the range that fired before, and are left out. Empty for a schedule with jitter. */
  alreadyFired: string[];
}

/** See `ScheduleHandle.backfill`. */
export async function backfillSchedule(target: ScheduleTarget, input: BackfillInput): Promise<BackfilledRange> {
  const parsed = parseInput(backfillSchema, input);
  if (!parsed.ok) throw new InvalidInputError(parsed.issues);
  const { overlap = 'buffer-all', maxFirings = DEFAULT_MAX_FIRINGS } = parsed.value;
  const [from, to] = [new Date(parsed.value.from), new Date(parsed.value.to)];
  const { spec } = await describeSchedule(target);
  const times = await matchingTimes(target, from, to);
  if (times.length > maxFirings) {
    const count = times.length > MAX_BACKFILL_FIRINGS ? `more than ${MAX_BACKFILL_FIRINGS}` : String(times.length);
    const message = `the range has ${count} firings, and at most ${maxFirings} are allowed; maxFirings, or --yes, allows up to ${MAX_BACKFILL_FIRINGS}`;
    throw new InvalidInputError([{ field: 'to', message }]);
  }
  // With jitter, a batch's id has the time before the jitter, which is unknown here.
  const fired = (spec.jitter ?? 0) > 0 ? new Set<Date>() : await firedTimes(target, times);
  const ranges = toRanges(times, (time) => !fired.has(time));
  const overlapPolicy = toOverlapPolicy(overlap);
  if (ranges.length > 0) {
    const backfills: Backfill[] = ranges.map((range) => ({ ...range, overlap: overlapPolicy }));
    await callSchedule(target, () => target.client.schedule.getHandle(target.name).backfill(backfills));
  }
  return {
    overlap,
    firings: times.filter((time) => !fired.has(time)).map((time) => time.toISOString()),
    alreadyFired: [...fired].map((time) => time.toISOString()).sort(),
  };
}

/** The schedule's times within a range, whether they fired or not. */
async function matchingTimes(target: ScheduleTarget, from: Date, to: Date): Promise<Date[]> {
  const { client, name } = target;
  const { startTime } = await callSchedule(target, () =>
    client.workflowService.listScheduleMatchingTimes({
      namespace: client.options.namespace,
      scheduleId: name,
      // The server excludes the start itself; a backfill includes it.
      startTime: toTimestamp(from.getTime() - 1),
      endTime: toTimestamp(to.getTime()),
    }),
  );
  return startTime.map((time) => new Date(timestampMs(time)));
}

/**
 * The times whose batch exists, running or closed. Temporal would run it again under the same id; it would find
 * all of its follow-ups sent, and report just that.
 */
async function firedTimes({ client, name }: ScheduleTarget, times: readonly Date[]): Promise<Set<Date>> {
  const fired = new Set<Date>();
  const left = [...times];
  const look = async () => {
    for (let time = left.shift(); time; time = left.shift()) {
      const workflowId = firingWorkflowId(name, time);
      try {
        await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
        fired.add(time);
      } catch (error) {
        if (!(error instanceof WorkflowNotFoundError)) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_LOOKS }, look));
  return fired;
}

/** Wanted times that are neighbours, as ranges from the first to the last. */
function toRanges(times: readonly Date[], isWanted: (time: Date) => boolean): { start: Date; end: Date }[] {
  const ranges: { start: Date; end: Date }[] = [];
  let current: { start: Date; end: Date } | undefined;
  for (const time of times) {
    if (!isWanted(time)) current = undefined;
    else if (current) current.end = time;
    else ranges.push((current = { start: time, end: time }));
  }
  return ranges;
}
