import {
  type BackfilledRange,
  MAX_BACKFILL_FIRINGS,
  type ScheduleDescription,
  type ScheduleOverlap,
  type Schedules,
} from '../client/index.js';
import type { Cli } from './cli.js';
import { safeLine } from './safe-text.js';
import { describeOverlap, describeTrigger } from './schedule-text.js';
import { inZone } from './schedule-times-text.js';
import { withTemporal } from './temporal-session.js';

interface BackfillOptions {
  from: string;
  to: string;
  overlap?: ScheduleOverlap;
  yes?: boolean;
}

/** `follow-up schedule pause` */
export async function pauseSchedule(cli: Cli, name: string, { note }: { note?: string }): Promise<void> {
  await withSchedules(cli, async (schedules) => {
    cli.output.data(await schedules.handle(name).pause(note), `${name} is paused`);
  });
}

/** `follow-up schedule resume` */
export async function resumeSchedule(cli: Cli, name: string): Promise<void> {
  await withSchedules(cli, async (schedules) => {
    const description = await schedules.handle(name).resume();
    cli.output.data(description, `${name} is resumed; ${nextText(description)}`);
  });
}

/** `follow-up schedule trigger` */
export async function triggerSchedule(cli: Cli, name: string): Promise<void> {
  await withSchedules(cli, async (schedules) => {
    const triggered = await schedules.handle(name).trigger();
    cli.output.data(triggered, describeTrigger(name, triggered));
  });
}

/** `follow-up schedule delete` */
export async function deleteSchedule(cli: Cli, name: string): Promise<void> {
  await withSchedules(cli, async (schedules) => {
    const { runningBatchIds } = await schedules.handle(name).delete();
    const goesOn = runningBatchIds.length > 0 ? `; still running: ${runningBatchIds.map(safeLine).join(', ')}` : '';
    cli.output.data({ name, deleted: true, runningBatchIds }, `${name} is deleted${goesOn}`);
  });
}

/** `follow-up schedule backfill` */
export async function backfillSchedule(
  cli: Cli,
  name: string,
  { from, to, overlap, yes }: BackfillOptions,
): Promise<void> {
  const input = {
    from,
    to,
    ...(overlap !== undefined && { overlap }),
    ...(yes && { maxFirings: MAX_BACKFILL_FIRINGS }),
  };
  await withSchedules(cli, async (schedules) => {
    const range = await schedules.handle(name).backfill(input);
    cli.output.data({ name, ...range }, describeBackfill(range));
  });
}

function withSchedules(cli: Cli, use: (schedules: Schedules) => Promise<void>): Promise<void> {
  return withTemporal(cli, ({ followUps }) => use(followUps.schedules));
}

function nextText({ nextFirings: [next], times: { timeZone } }: ScheduleDescription): string {
  return next === undefined ? 'no firing is to come' : `next firing ${inZone(next, timeZone)} ${safeLine(timeZone)}`;
}

function describeBackfill({ overlap, firings, alreadyFired }: BackfilledRange): string {
  const count = (times: readonly string[]) => `${times.length} ${times.length === 1 ? 'firing' : 'firings'}`;
  const [first] = firings;
  const last = firings.at(-1);
  return [
    first === undefined || last === undefined
      ? 'nothing to make good in that range'
      : `asked for ${count(firings)}, from ${first} to ${last}`,
    alreadyFired.length > 0
      ? `${count(alreadyFired)} of the range had been before, and ${alreadyFired.length === 1 ? 'is' : 'are'} left out`
      : '',
    firings.length > 1 ? `overlap ${describeOverlap(overlap)}` : '',
  ]
    .filter(Boolean)
    .join('\n');
}
