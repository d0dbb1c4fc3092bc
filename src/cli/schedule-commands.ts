import { type Command, Option } from 'commander';
import { scheduleOverlaps } from '../contract/choices.js';
import { choice, type LazyAction, withCommonOptions } from './command-options.js';

const CREATE_HELP = `
Cron: minute, hour, day of month, month, day of week, or @hourly, @daily,
@weekly, @monthly, @yearly. Day of month and day of week must both match.
Daylight saving: a time that the clock skips does not fire on that day. A time
that it repeats fires once in some zones and twice in others. Clocks change
between 00:00 and 03:00 in most zones: avoid those hours, or use UTC.
Intervals count from 1970-01-01T00:00:00Z: --every 1h fires on the hour, and
with --offset 19m at 19 minutes past.

FILE has one follow-up as JSON per line, as for "follow-up batch run", or one
JSON document: {"items": […]} or {"projectId": …, "prompt": …, "jobIds": […]}.
Its follow-ups are in the lane batch unless it says otherwise. You cannot change
a schedule: delete it and create it again.`;

/** `follow-up schedule …` */
export function addScheduleCommands(program: Command, action: LazyAction): void {
  const schedule = program.command('schedule').description('start batches of follow-ups at set times');
  const named = (name: string, description: string) =>
    schedule.command(name).description(description).argument('<schedule>', 'as "follow-up schedule list" prints it');

  const create = schedule
    .command('create')
    .description('start a batch of follow-ups at set times; each firing is a batch of its own')
    .argument('<name>', 'unique in the namespace; 1 to 99 of A-Z a-z 0-9 . _ ~ -')
    .argument('<file>', 'the batch, at most 256 KiB of JSON; - reads stdin')
    .option('--cron <expression>', 'when to fire, such as "0 2 * * MON-FRI"')
    .option('--every <duration>', 'fire at this interval, 1s to 365d')
    .option('--offset <duration>', 'with --every: how long after the start of each interval to fire (default: 0)')
    .option('--time-zone <zone>', 'with --cron: its time zone, such as Europe/Berlin (default: UTC)')
    .addOption(
      choice('--overlap <policy>', 'what to do if the previous firing still runs (default: skip)', scheduleOverlaps),
    )
    .option('--catch-up-window <duration>', 'how late a firing may start after an outage of Temporal (default: 1h)')
    .option('--jitter <duration>', 'delay each firing by a random time up to this (default: 0)')
    .option('--start-at <instant>', 'no firing before; ISO 8601 with a zone, such as 2026-12-01T00:00:00Z')
    .option('--end-at <instant>', 'no firing after')
    .option('--limit <n>', 'maximum number of firings (default: no limit)')
    .option('--note <text>', 'shown with the schedule')
    .option('--paused', 'create it paused, until "follow-up schedule resume"')
    .option('--max-open <n>', 'maximum number of open follow-ups per firing (default: 50)')
    .option('--allow-duplicates', 'allow lines with the same project, job and prompt')
    .addHelpText('after', CREATE_HELP);
  withCommonOptions(
    create,
    'follow-up schedule create nightly jobs.jsonl \\\n      --cron "0 4 * * MON-FRI" --time-zone Europe/Berlin',
  ).action(action(async () => (await import('./schedule-actions.js')).createSchedule));

  const list = schedule
    .command('list')
    .description('list schedules with their next firing and the outcomes of the latest ones');
  withCommonOptions(list, 'follow-up schedule list --json').action(
    action(async () => (await import('./schedule-actions.js')).listSchedules),
  );

  const describe = named(
    'describe',
    'show the times and policies of a schedule, its next 5 firings, and the outcomes of the latest 10',
  );
  withCommonOptions(describe, 'follow-up schedule describe nightly').action(
    action(async () => (await import('./schedule-actions.js')).describeSchedule),
  );

  const pause = named('pause', 'stop firing until resumed; a running batch continues').option(
    '--note <text>',
    "why; shown after the schedule's own note while it is paused",
  );
  withCommonOptions(pause, 'follow-up schedule pause nightly --note "release freeze"').action(
    action(async () => (await import('./schedule-actions.js')).pauseSchedule),
  );

  const resume = named('resume', 'fire again from the next time on; use backfill for the times in between');
  withCommonOptions(resume, 'follow-up schedule resume nightly').action(
    action(async () => (await import('./schedule-actions.js')).resumeSchedule),
  );

  const trigger = named('trigger', "fire now, even while paused, under the schedule's overlap policy");
  withCommonOptions(trigger, 'follow-up schedule trigger nightly').action(
    action(async () => (await import('./schedule-actions.js')).triggerSchedule),
  );

  const remove = named('delete', 'delete a schedule; running batches continue');
  withCommonOptions(remove, 'follow-up schedule delete nightly').action(
    action(async () => (await import('./schedule-actions.js')).deleteSchedule),
  );

  const backfill = named(
    'backfill',
    'fire for every time in a past range that has not fired, even while paused; by default one after another',
  )
    .requiredOption('--from <instant>', 'start of the range; ISO 8601 with a zone')
    .requiredOption('--to <instant>', 'end of the range, not later than now')
    .addOption(
      new Option('--overlap <policy>', 'what to do if another firing runs (default: buffer-all)').choices(
        scheduleOverlaps,
      ),
    )
    .option('--yes', 'allow more than 100 firings, up to 999');
  withCommonOptions(
    backfill,
    'follow-up schedule backfill nightly \\\n      --from 2026-11-18T00:00:00Z --to 2026-11-21T00:00:00Z',
  ).action(action(async () => (await import('./schedule-actions.js')).backfillSchedule));
}
