import type { Command } from 'commander';
import { parseCreateScheduleInput, scheduleOverlaps } from '../client/index.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { duration, given, number } from './follow-up-options.js';
import { readScheduleFile } from './schedule-file.js';
import { describeScheduleText } from './schedule-text.js';
import { withTemporal } from './temporal-session.js';

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

const HELP = `
Cron: minute, hour, day of month, month, day of week, or @hourly, @daily, @weekly, @monthly, @yearly. Day of month and
day of week must both match. With a time zone that has daylight saving, a time that the change leaves out does not fire
on that day, and a time that it repeats fires twice: keep away from 01:00 to 03:00, or use UTC.
Intervals are counted from 1970-01-01T00:00:00Z: --every 1h fires at each full hour, with --offset 19m at 19 past.

FILE has a follow-up as JSON a line, as for "follow-up batch run", or one JSON document: {"items": […]} or
{"projectId": …, "prompt": …, "jobIds": […]}. Its follow-ups are in lane batch unless it says otherwise. A schedule cannot
be changed: delete it, and create it anew.`;

/** `follow-up schedule create` */
export function addScheduleCreateCommand(schedule: Command, cli: Cli): void {
  const create = schedule
    .command('create')
    .description('start a batch of follow-ups at set times; each firing is a batch of its own')
    .argument('<name>', 'unique in the namespace; 1 to 99 of A-Z a-z 0-9 . _ ~ -')
    .argument('<file>', 'the batch, at most 256 KiB of JSON; - is stdin')
    .option('--cron <expression>', 'when to fire, such as "0 2 * * MON-FRI"')
    .option('--every <duration>', 'or in which interval, 1s to 365d')
    .option('--offset <duration>', "with --every: how long after each interval's begin (default: 0)")
    .option('--time-zone <zone>', 'with --cron: whose clock it means, such as Europe/Berlin (default: UTC)')
    .option(
      '--overlap <policy>',
      `what a firing does while the one before is running: ${scheduleOverlaps.join(', ')} (default: skip)`,
    )
    .option('--catch-up-window <duration>', 'how late a firing may be after an outage of Temporal (default: 1h)')
    .option('--jitter <duration>', 'each firing is late by a random time up to this one (default: 0)')
    .option('--start-at <instant>', 'no firing before; ISO 8601 with its zone, such as 2026-12-01T00:00:00Z')
    .option('--end-at <instant>', 'no firing after')
    .option('--limit <n>', 'firings until it is done (default: no limit)')
    .option('--note <text>', 'shown with the schedule')
    .option('--paused', 'wait for "follow-up schedule resume"')
    .option('--max-open <n>', 'follow-ups of a firing that are open at a time (default: 50)')
    .option('--allow-duplicates', 'take two lines with the same project, job and prompt')
    .addHelpText('after', HELP);
  withCommonOptions(
    create,
    'follow-up schedule create nightly jobs.jsonl --cron "0 4 * * MON-FRI" --time-zone Europe/Berlin',
  ).action((name: string, file: string, options: CreateOptions) => createSchedule(cli, name, file, options));
}

async function createSchedule(cli: Cli, name: string, file: string, options: CreateOptions): Promise<void> {
  const { cron, timeZone, overlap, startAt, endAt, note, paused, allowDuplicates = false } = options;
  const document = await readScheduleFile(file, allowDuplicates);
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
    input: { ...document, ...(maxOpen !== undefined && { maxOpen }) },
  });
  const checked = parseCreateScheduleInput(input);
  await withTemporal(cli.env, async ({ followUps }) => {
    const created = await (await followUps.schedules.create(checked)).describe();
    if (created.nextFirings.length === 0) cli.output.note('warning: there is no time at which this schedule fires');
    cli.output.data(created, `created\n${describeScheduleText(created, [])}`);
  });
  cli.exitCode = ExitCode.ok;
}
