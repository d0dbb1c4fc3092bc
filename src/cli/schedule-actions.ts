import { Readable } from 'node:stream';
import {
  type BackfilledRange,
  MAX_BACKFILL_FIRINGS,
  parseCreateScheduleInput,
  type ScheduleDescription,
  type ScheduleOverlap,
  type Schedules,
} from '../client/index.js';
import { defined } from '../contract/defined.js';
import { safeLine } from '../terminal-text.js';
import { readBatchFile } from './batch-file.js';
import { type Cli, type CliIo, UsageError } from './cli.js';
import { duration, given, number } from './command-options.js';
import { describeOverlap, describeScheduleText, describeTrigger, inZone, summariseSchedule } from './schedule-text.js';
import { withTemporal } from './temporal-session.js';
import { decodeUtf8 } from '../text-file.js';
import { openSource, readBytes } from './text-source.js';

/** A schedule's batch has at most 256 KiB of JSON; the file may also have spaces and escapes. */
const MAX_FILE_BYTES = 4 * 1_048_576;

interface CreateOptions {
  cron?: string;
  every?: string;
  offset?: string;
  timeZone?: string;
  overlap?: string;
  catchUpWindow?: string;
  jitter?: string;
  startAt?: string;
  endAt?: string;
  limit?: string;
  note?: string;
  paused?: boolean;
  maxOpen?: string;
  allowDuplicates?: boolean;
}

/** `follow-up schedule create` */
export async function createSchedule(cli: Cli, name: string, file: string, options: CreateOptions): Promise<void> {
  const { cron, timeZone, overlap, startAt, endAt, note, paused, allowDuplicates = false } = options;
  const document = await readScheduleFile(cli.io, file, allowDuplicates);
  const maxOpen = number(options.maxOpen);
  const input = given({
    name,
    cron,
    every: duration(options.every),
    offset: duration(options.offset),
    timeZone,
    overlap,
    catchUpWindow: duration(options.catchUpWindow),
    jitter: duration(options.jitter),
    startAt,
    endAt,
    limit: number(options.limit),
    note,
    paused,
    input: { ...document, ...defined({ maxOpen }) },
  });
  const checked = parseCreateScheduleInput(input);
  await withTemporal(cli, async ({ followUps }) => {
    const created = await (await followUps.schedules.create(checked)).describe();
    if (created.nextFirings.length === 0) cli.output.note('warning: this schedule never fires');
    cli.output.data(created, `created\n${describeScheduleText(created, [])}`);
  });
}

/**
 * Reads the batch of a schedule: a JSON document with `items` or `jobIds`, or one follow-up per line, checked here.
 *
 * @param file `-` is stdin
 * @returns an unchecked `FollowUpBatchInput`
 * @throws BadLinesError naming every bad line; UsageError if it cannot be read, or is far too large
 */
async function readScheduleFile(io: CliIo, file: string, allowDuplicates: boolean): Promise<Record<string, unknown>> {
  const source = await openSource('schedule', file, io);
  const { name } = source;
  const bytes = await readBytes('schedule', source, MAX_FILE_BYTES);
  if (!bytes) {
    throw new UsageError(`schedule: ${name} must be at most ${MAX_FILE_BYTES} bytes, of which 262144 may be its batch`);
  }
  const document = parseDocument(bytes);
  if (document) return document;
  const items = await readBatchFile({ name, stream: Readable.from([bytes]) }, { allowDuplicates });
  return { items: items.map(({ input }) => input) };
}

/** The whole file as a batch's input; `undefined` if it is something else, such as lines. */
function parseDocument(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(decodeUtf8(bytes));
    if (typeof value !== 'object' || value === null || !('items' in value || 'jobIds' in value)) return undefined;
    return { ...value };
  } catch {
    return undefined;
  }
}

/** Latest firings of each schedule in the list. */
const LISTED_FIRINGS = 3;

/** `follow-up schedule list` */
export async function listSchedules({ env, output }: Cli): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps: { schedules } }) => {
    let count = 0;
    for await (const description of schedules.list()) {
      const firings = await schedules.outcomes(description.recentFirings.slice(0, LISTED_FIRINGS));
      output.data({ ...description, recentFirings: firings }, summariseSchedule(description, firings));
      count++;
    }
    if (count === 0) output.note('no schedules found; a new one may take a second to be listed');
  });
}

/** `follow-up schedule describe` */
export async function describeSchedule({ env, output }: Cli, name: string): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps: { schedules } }) => {
    const description = await schedules.handle(name).describe();
    const firings = await schedules.outcomes(description.recentFirings);
    output.data({ ...description, recentFirings: firings }, describeScheduleText(description, firings));
  });
}

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
    ...defined({ overlap }),
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
  return next === undefined ? 'no further firings' : `next firing ${inZone(next, timeZone)} ${safeLine(timeZone)}`;
}

function describeBackfill({ overlap, firings, alreadyFired }: BackfilledRange): string {
  const count = (times: readonly string[]) => `${times.length} ${times.length === 1 ? 'firing' : 'firings'}`;
  const [first] = firings;
  const last = firings.at(-1);
  return [
    first === undefined || last === undefined
      ? 'no time in that range is left to fire'
      : `asked for ${count(firings)}, from ${first} to ${last}`,
    alreadyFired.length > 0
      ? `${count(alreadyFired)} of the range fired before, and ${alreadyFired.length === 1 ? 'is' : 'are'} skipped`
      : '',
    firings.length > 1 ? `overlap ${describeOverlap(overlap)}` : '',
  ]
    .filter(Boolean)
    .join('\n');
}
