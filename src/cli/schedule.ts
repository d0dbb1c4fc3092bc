import type { CreateScheduleInput, ScheduleDescription, Schedules } from '../client/index.js';
import { defined } from '../contract/defined.js';
import { formatDuration } from '../contract/durations.js';
import { plainText, safeLine } from '../terminal-text.js';
import { decodeUtf8 } from '../text-file.js';
import { readBatchFile } from './batch-file.js';
import { type Cli, UsageError } from './cli.js';
import { duration, type LimitOptions, number, openSource, readBytes, toLimits } from './options.js';
import { withTemporal } from './session.js';
import { rowsOf } from './text.js';

/** A schedule's batch has at most 256 KiB of JSON; the file may also have spaces and escapes. */
const MAX_FILE_BYTES = 4 * 1_048_576;

type CreateOptions = Record<string, string | undefined> & LimitOptions & { paused?: boolean };

/** `follow-up schedule create` */
export async function createSchedule(cli: Cli, name: string, file: string, options: CreateOptions): Promise<void> {
  const { cron, every, offset, timeZone, overlap, catchUpWindow, limit, note, paused } = options;
  const batch = await readBatch(cli, file, options);
  const input: Record<string, unknown> = defined({
    ...{ name, cron, timeZone, overlap, note, paused },
    ...{ every: duration(every), offset: duration(offset), catchUpWindow: duration(catchUpWindow) },
    limit: number(limit),
    input: { ...batch, ...toLimits(options) },
  });
  await withTemporal(cli, async ({ followUps: { schedules } }) => {
    await schedules.create(input as CreateScheduleInput);
    const created = await schedules.describe(name);
    cli.output.data(created, `created\n${describeText(created)}`);
  });
}

/** Reads an unchecked batch: a JSON document, or one follow-up per line. */
async function readBatch({ io }: Cli, file: string, { allowDuplicates }: LimitOptions): Promise<object> {
  const source = openSource('schedule', file, io);
  const bytes = await readBytes(source, MAX_FILE_BYTES);
  if (!bytes) throw new UsageError(`schedule: ${source.name} must be at most ${MAX_FILE_BYTES} bytes`);
  try {
    const document = JSON.parse(decodeUtf8(bytes)) as object;
    if ('items' in document || 'jobIds' in document) return document;
  } catch (error) {
    const [firstLine = ''] = bytes.toString().trim().split('\n');
    if (!firstLine.trimEnd().endsWith('}'))
      throw new UsageError(`schedule: ${source.name}: not JSON: ${String(error)}`);
    // Not one document, but lines.
  }
  const items = await readBatchFile({ ...source, chunks: [bytes] }, { allowDuplicates });
  return { items: items.map(({ input }) => input) };
}

/** `follow-up schedule list` */
export async function listSchedules(cli: Cli): Promise<void> {
  await withTemporal(cli, async ({ followUps: { schedules } }) => {
    let isEmpty = true;
    for await (const schedule of schedules.list()) {
      const { name, paused, note = '' } = schedule;
      const next = paused ? 'paused' : `next ${nextTimes(schedule)[0] ?? 'never'}`;
      const cells = [name.padEnd(20), next.padEnd(34), timesText(schedule), note];
      cli.output.data(schedule, cells.map(oneLine).join('  ').trimEnd());
      isEmpty = false;
    }
    if (isEmpty) cli.output.note('no schedules found; a new one may take a second to be listed');
  });
}

const oneLine = (text: string) => plainText(text.replace(/[\r\n\t]+/g, ' '));

/** The commands for one schedule. They print the schedule, or that Temporal has accepted the order. */
export const orders = {
  describe: order((schedules, name) => schedules.describe(name)),
  pause: order((schedules, name, note) => schedules.pause(name, note), { paused: true }, 'is paused'),
  resume: order((schedules, name) => schedules.resume(name), { paused: false }, 'is resumed'),
  trigger: order(
    (schedules, name) => schedules.trigger(name),
    { accepted: true },
    'fires if its overlap policy allows it',
  ),
  delete: order((schedules, name) => schedules.delete(name), { deleted: true }, 'is deleted'),
};

type Order = (schedules: Schedules, name: string, note?: string) => Promise<ScheduleDescription | void>;

function order(run: Order, done = {}, text = '') {
  return async (cli: Cli, name: string, { note }: { note?: string }): Promise<void> => {
    const found = await withTemporal(cli, ({ followUps }) => run(followUps.schedules, name, note));
    cli.output.data(found ?? { name, ...done }, found ? describeText(found) : `${name} ${text}`);
  };
}

function describeText(schedule: ScheduleDescription): string {
  const { name, paused, note, overlap, followUps, projectIds, taskQueue, counts, remainingFirings } = schedule;
  const several = (name: string, texts: readonly string[]) =>
    texts.map((text, index) => [index ? '' : name, text] as const);
  return rowsOf([
    ['schedule', paused ? `${name}, paused` : name],
    ['note', safeLine(note ?? '')],
    ['fires', safeLine(timesText(schedule))],
    [
      'batch',
      safeLine(
        `${followUps} ${followUps === 1 ? 'follow-up' : 'follow-ups'} of ${projectIds.join(', ')}, task queue ${taskQueue}`,
      ),
    ],
    ['overlap', overlap],
    ['catch-up', formatDuration(schedule.catchUpWindowMs)],
    ['left', remainingFirings?.toString()],
    ['so far', `${counts.fired} fired, ${counts.skipped} skipped by the overlap policy, ${counts.missed} missed`],
    ...several('next', nextTimes(schedule).slice(0, 5)),
    ...several(
      'latest',
      schedule.recentFirings.map(({ batchId }) => safeLine(batchId)),
    ),
    ...several('running', schedule.runningBatchIds.map(safeLine)),
  ]).join('\n');
}

function timesText({ times: { cron, intervals, timeZone } }: ScheduleDescription): string {
  const every = intervals.map(({ everyMs, offsetMs }) =>
    [`every ${formatDuration(everyMs)}`, ...(offsetMs > 0 ? [`offset ${formatDuration(offsetMs)}`] : [])].join(', '),
  );
  return [...(cron ? [`cron ${cron}, ${timeZone}`] : []), ...every].join('; ') || 'at times set in Temporal';
}

/** The next firings, by the clock of the schedule's time zone. */
function nextTimes({ nextFirings, times: { timeZone } }: ScheduleDescription): string[] {
  // Swedish dates look like ISO 8601.
  return nextFirings.map((at) => `${new Date(at).toLocaleString('sv-SE', { timeZone })} ${timeZone}`);
}
