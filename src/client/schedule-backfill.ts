import type { Backfill } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { msToTs, tsToDate } from '@temporalio/common/lib/time.js';
import { z } from 'zod';
import { parseInput } from '../contract/index.js';
import { type ScheduleOverlap, scheduleOverlaps } from '../contract/choices.js';
import { InvalidInputError } from './errors.js';
import { toOverlapPolicy } from './schedule-description.js';
import { firingWorkflowId } from './schedule-firing-id.js';
import { instantSchema } from './schedule-input.js';
import { callSchedule, describeSchedule, type ScheduleTarget } from './schedule-target.js';
import { callTemporal } from './temporal-call.js';

/** Firings of one backfill that nobody has said yes to. */
const DEFAULT_MAX_FIRINGS = 100;
/** The server tells 1,000 matching times at most: with fewer they are all there are. */
export const MAX_BACKFILL_FIRINGS = 999;

const CONCURRENT_LOOKS = 16;

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
  const { spec } = await describeSchedule(target);
  const times = await matchingTimes(target, from, to);
  if (times.length > maxFirings) {
    const count = times.length > MAX_BACKFILL_FIRINGS ? `more than ${MAX_BACKFILL_FIRINGS}` : String(times.length);
    const message = `the range has ${count} firings, and at most ${maxFirings} are allowed; maxFirings, or --yes, allows up to ${MAX_BACKFILL_FIRINGS}`;
    throw new InvalidInputError([{ field: 'to', message }]);
  }
  // With jitter a batch's id has the time before the jitter, which is not known here.
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
      // The server leaves the start itself out, where a backfill takes it in.
      startTime: msToTs(from.getTime() - 1),
      endTime: msToTs(to.getTime()),
    }),
  );
  return startTime.map((time) => tsToDate(time));
}

/**
 * Those times whose batch is there, running or closed. Temporal would run it once more under the same id; it would find
 * each of its follow-ups sent, and report nothing but that.
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
