import type { CreateScheduleInput, ScheduleDescription, Schedules } from '../client/index.js';
import { messageOf } from '../common/index.js';
import { formatDuration } from '../contract/index.js';
import { safeLine } from '../node/terminal-text.js';
import { readBatchFile } from './batch-file.js';
import { type Cli, UsageError } from './cli.js';
import { pick, readText, toLimits } from './input-options.js';
import { counted, rowsOf } from './lines.js';
import { withTemporal } from './session.js';

/** A schedule's batch has at most 256 KiB of JSON; the file may also contain spaces and escapes. */
const MAX_FILE_BYTES = 4 * 1_048_576;

const SCHEDULE_OPTIONS = 'cron every offset timeZone overlap catchUpWindow limit note paused'.split(' ');

interface CreateOptions {
  allowDuplicates?: boolean;
}

/** `follow-up schedule create` */
export async function createSchedule(cli: Cli, name: string, file: string, options: CreateOptions): Promise<void> {
  const batch = await readBatch(cli, file, options);
  const input = { name, ...pick(options, SCHEDULE_OPTIONS), input: { ...batch, ...toLimits(options) } };
  await withTemporal(cli, async ({ followUps: { schedules } }) => {
    await schedules.create(input as CreateScheduleInput);
    const created = await schedules.describe(name);
    cli.output.data(created, `created\n${describeText(created)}`);
  });
}

/** Reads an unchecked batch: a JSON document, or one follow-up per line. */
async function readBatch({ io }: Cli, file: string, { allowDuplicates }: CreateOptions): Promise<object> {
  const text = await readText('schedule', file, io, MAX_FILE_BYTES);
  const name = file === '-' ? 'stdin' : file;
  try {
    const document: unknown = JSON.parse(text);
    if (typeof document === 'object' && document && ('items' in document || 'jobIds' in document)) return document;
  } catch (error) {
    const [firstLine = ''] = text.trim().split('\n');
    if (!firstLine.trimEnd().endsWith('}')) throw new UsageError(`schedule: ${name}: not JSON: ${messageOf(error)}`);
    // Not one document, but lines.
  }
  const items = await readBatchFile({ name, chunks: [Buffer.from(text)] }, { allowDuplicates });
  return { items: items.map(({ input }) => input) };
}

/** `follow-up schedule list` */
export async function listSchedules(cli: Cli): Promise<void> {
  await withTemporal(cli, async ({ followUps: { schedules } }) =>
    cli.output.list(schedules.list(), {
      columns: ['schedule', 'next', 'fires', 'note'],
      row: (schedule) => {
        const next = schedule.paused ? 'paused' : (nextTimes(schedule)[0] ?? 'never');
        return [schedule.name, next, timesText(schedule), schedule.note ?? ''];
      },
      none: 'no schedules found; a new one may take a second to be listed',
    }),
  );
}

/** Commands for one schedule. They print the schedule or a confirmation. */
export const scheduleActions = {
  describe: scheduleCommand((schedules, name) => schedules.describe(name)),
  pause: scheduleCommand((schedules, name, note) => schedules.pause(name, note), { paused: true }, 'is paused'),
  resume: scheduleCommand((schedules, name) => schedules.resume(name), { paused: false }, 'is resumed'),
  trigger: scheduleCommand(
    (schedules, name) => schedules.trigger(name),
    { accepted: true },
    'fires now if its overlap policy allows it',
  ),
  delete: scheduleCommand((schedules, name) => schedules.delete(name), { deleted: true }, 'is deleted'),
};

type ScheduleAction = (schedules: Schedules, name: string, note?: string) => Promise<ScheduleDescription | void>;

function scheduleCommand(run: ScheduleAction, done = {}, text = '') {
  return async (cli: Cli, name: string, { note }: { note?: string }): Promise<void> => {
    const found = await withTemporal(cli, ({ followUps }) => run(followUps.schedules, name, note));
    cli.output.data(found ?? { name, ...done }, found ? describeText(found) : `${name} ${text}`);
  };
}

function describeText(schedule: ScheduleDescription): string {
  const { name, paused, note, overlap, followUps, projectIds, taskQueue, counts, remainingFirings } = schedule;
  const next = nextTimes(schedule);
  const several = (name: string, texts: readonly string[]) =>
    texts.map((text, index) => [index ? '' : name, safeLine(text)] as const);
  return rowsOf([
    ['schedule', paused ? `${name}, paused` : name],
    ['note', safeLine(note ?? '')],
    ['fires', safeLine(timesText(schedule))],
    ['batch', safeLine(`${counted(followUps, 'follow-up')} of ${projectIds.join(', ')}, task queue ${taskQueue}`)],
    ['overlap', overlap],
    ['catch-up', formatDuration(schedule.catchUpWindowMs)],
    ['left', remainingFirings?.toString()],
    ['so far', `${counts.fired} fired, ${counts.skipped} skipped by the overlap policy, ${counts.missed} missed`],
    ...several('next', next.length > 0 ? next.slice(0, 5) : ['never']),
    ...several(
      'latest',
      schedule.recentFirings.map(({ batchId }) => batchId),
    ),
    ...several('running', schedule.runningBatchIds),
  ]).join('\n');
}

function timesText({ times: { cron, intervals, timeZone } }: ScheduleDescription): string {
  const every = intervals.map(({ everyMs, offsetMs }) =>
    [`every ${formatDuration(everyMs)}`, ...(offsetMs > 0 ? [`offset ${formatDuration(offsetMs)}`] : [])].join(', '),
  );
  return [...(cron ? [`cron ${cron}, ${timeZone}`] : []), ...every].join('; ') || 'at times set in Temporal';
}

/** The next firings in the schedule's time zone. */
function nextTimes({ nextFirings, times: { timeZone } }: ScheduleDescription): string[] {
  // Swedish dates look like ISO 8601.
  return nextFirings.map((at) => `${new Date(at).toLocaleString('sv-SE', { timeZone })} ${timeZone}`);
}
