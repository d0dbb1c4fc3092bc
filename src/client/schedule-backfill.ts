import type { Backfill, ScheduleDescription as TemporalDescription } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { msToTs, tsToDate } from '@temporalio/common/lib/time.js';
import { z } from 'zod';
import { parseInput } from '../contract/index.js';
import { InvalidInputError } from './errors.js';
import { toOverlapPolicy } from './schedule-description.js';
import { instantSchema, type ScheduleOverlap, scheduleOverlaps } from './schedule-input.js';
import { callSchedule, describeSchedule, type ScheduleTarget } from './schedule-target.js';
import { callTemporal } from './temporal-call.js';

/** Firings of one backfill that nobody has said yes to. */
const DEFAULT_MAX_FIRINGS = 100;
/** The server tells 1,000 matching times at most: with fewer they are all there are. */
export const MAX_BACKFILL_FIRINGS = 999;

const backfillSchema = z
  .strictObject({
    /** The first time that counts. ISO 8601 with a zone. */
    from: instantSchema,
    /** The last time that counts, not later than now. */
    to: instantSchema.refine((to) => Date.parse(to) <= Date.now(), 'must not be later than now'),
    /** What each does while another firing is running. @default 'buffer-all': one after another */
    overlap: z.enum(scheduleOverlaps).optional(),
    /** More are refused. At most 999. @default 100 */
    maxFirings: z.int().min(1).max(MAX_BACKFILL_FIRINGS).optional(),
  })
  .refine(({ from, to }) => Date.parse(from) <= Date.parse(to), {
    path: ['to'],
    message: 'must not be earlier than from',
  });

/** A time range to make good. */
export type BackfillInput = z.input<typeof backfillSchema>;

/** What a backfill was asked for. Instants are ISO 8601 in UTC. */
export interface BackfilledRange {
  overlap: ScheduleOverlap;
  /** When the firings were due that it asks for. They begin soon. */
  firings: string[];
  /** Times of the range that had fired already, and are left out. Not told apart in a schedule with jitter. */
  alreadyFired: string[];
}

/** See `ScheduleHandle.backfill`. */
export async function backfillSchedule(target: ScheduleTarget, input: BackfillInput): Promise<BackfilledRange> {
  const parsed = parseInput(backfillSchema, input);
  if (!parsed.ok) throw new InvalidInputError(parsed.issues);
  const { overlap = 'buffer-all', maxFirings = DEFAULT_MAX_FIRINGS } = parsed.value;
  const [from, to] = [new Date(parsed.value.from), new Date(parsed.value.to)];
  const described = await describeSchedule(target);
  const times = await matchingTimes(target, from, to);
  const fired = await firedTimes(target, described, from, to);
  const isMissing = (time: Date) => !fired.has(time.getTime());
  const missing = times.filter(isMissing);
  if (missing.length > maxFirings) {
    const count = times.length > MAX_BACKFILL_FIRINGS ? `more than ${MAX_BACKFILL_FIRINGS}` : `${missing.length}`;
    throw new InvalidInputError([
      {
        field: 'to',
        message: `the range has ${count} firings, and at most ${maxFirings} are allowed; maxFirings, or --yes, allows up to ${MAX_BACKFILL_FIRINGS}`,
      },
    ]);
  }
  const ranges = toRanges(times, isMissing).map((range): Backfill => ({ ...range, overlap: toOverlapPolicy(overlap) }));
  if (ranges.length > 0) {
    await callSchedule(target, () => target.client.schedule.getHandle(target.name).backfill(ranges));
  }
  return {
    overlap,
    firings: missing.map((time) => time.toISOString()),
    alreadyFired: times.filter((time) => !isMissing(time)).map((time) => time.toISOString()),
  };
}

/** The schedule's times within a range, whether they fired or not. */
async function matchingTimes(target: ScheduleTarget, from: Date, to: Date): Promise<Date[]> {
  const { client, name } = target;
  const { startTime } = await callSchedule(target, () =>
    client.workflowService.listScheduleMatchingTimes({
      namespace: client.options.namespace,
      scheduleId: name,
      // The server leaves the start itself out, where a backfill takes it in.
      startTime: msToTs(from.getTime() - 1),
      endTime: msToTs(to.getTime()),
    }),
  );
  return startTime.map((time) => tsToDate(time));
}

const SCHEDULED_START = defineSearchAttributeKey('TemporalScheduledStartTime', SearchAttributeType.DATETIME);

/**
 * Times of the range whose batch is there. A backfill would run it once more under the same id; it would find each of
 * its follow-ups sent, and report nothing but that. With jitter a batch has the time before the jitter, and none is
 * found: then that is what happens.
 */
async function firedTimes(
  { client, name }: ScheduleTarget,
  { spec }: TemporalDescription,
  from: Date,
  to: Date,
): Promise<Set<number>> {
  const fired = new Set<number>();
  if ((spec.jitter ?? 0) > 0) return fired;
  const query = [
    `TemporalScheduledById = '${name}'`,
    `TemporalScheduledStartTime >= '${from.toISOString()}'`,
    `TemporalScheduledStartTime <= '${to.toISOString()}'`,
  ].join(' AND ');
  await callTemporal(
    client,
    async () => {
      for await (const { typedSearchAttributes } of client.workflow.list({ query })) {
        const dueAt = typedSearchAttributes.get(SCHEDULED_START);
        if (dueAt) fired.add(dueAt.getTime());
      }
    },
    { timeoutMs: 30_000 },
  );
  return fired;
}

/** Neighbouring times that are wanted, as ranges from the first to the last of them. */
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
