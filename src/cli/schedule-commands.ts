import { type Command, Option } from 'commander';
import { scheduleOverlaps } from '../contract/choices.js';
import { choice, type LazyAction, withCommonOptions } from './options.js';

const CREATE_HELP = `
Cron: minute, hour, day of month, month, day of week, or @hourly, @daily,
@weekly, @monthly, @yearly. Day of month and day of week must both match. With a
time zone that has daylight saving, a time that the change leaves out does not
fire on that day, and a time that it repeats fires twice: keep away from 01:00
to 03:00, or use UTC.
Intervals are counted from 1970-01-01T00:00:00Z: --every 1h fires at each full
hour, with --offset 19m at 19 past.

FILE has a follow-up as JSON a line, as for "follow-up batch run", or one JSON
document: {"items": […]} or {"projectId": …, "prompt": …, "jobIds": […]}. Its
follow-ups are in lane batch unless it says otherwise. A schedule cannot be
changed: delete it, and create it anew.`;

/** `follow-up schedule …` */
export function addScheduleCommands(program: Command, action: LazyAction): void {
  const schedule = program.command('schedule').description('start batches of follow-ups at set times');
  const named = (name: string, description: string) =>
    schedule.command(name).description(description).argument('<schedule>', 'as "follow-up schedule list" prints it');

  const create = schedule
    .command('create')
    .description('start a batch of follow-ups at set times; each firing is a batch of its own')
    .argument('<name>', 'unique in the namespace; 1 to 99 of A-Z a-z 0-9 . _ ~ -')
    .argument('<file>', 'the batch, at most 256 KiB of JSON; - is stdin')
    .option('--cron <expression>', 'when to fire, such as "0 2 * * MON-FRI"')
    .option('--every <duration>', 'or in which interval, 1s to 365d')
    .option('--offset <duration>', "with --every: how long after each interval's begin (default: 0)")
    .option('--time-zone <zone>', 'with --cron: whose clock it means, such as Europe/Berlin (default: UTC)')
    .addOption(
      choice(
        '--overlap <policy>',
        'what a firing does while the one before is running (default: skip)',
        scheduleOverlaps,
      ),
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
    .addHelpText('after', CREATE_HELP);
  withCommonOptions(
    create,
    'follow-up schedule create nightly jobs.jsonl \\\n      --cron "0 4 * * MON-FRI" --time-zone Europe/Berlin',
  ).action(action(async () => (await import('./schedule-create.js')).createSchedule));

  const list = schedule
    .command('list')
    .description('list schedules with their next firing, and what has become of their latest ones');
  withCommonOptions(list, 'follow-up schedule list --json').action(
    action(async () => (await import('./schedule-show.js')).listSchedules),
  );

  const describe = named(
    'describe',
    'show when a schedule fires, its policies, its next 5 firings and its latest 10 with their outcomes',
  );
  withCommonOptions(describe, 'follow-up schedule describe nightly').action(
    action(async () => (await import('./schedule-show.js')).describeSchedule),
  );

  const pause = named('pause', 'fire no more until it is resumed; a batch that runs goes on').option(
    '--note <text>',
    "why; shown behind the schedule's own note while it is paused",
  );
  withCommonOptions(pause, 'follow-up schedule pause nightly --note "release freeze"').action(
    action(async () => (await import('./schedule-orders.js')).pauseSchedule),
  );

  const resume = named('resume', 'fire again from the next time on; what was due meanwhile is for backfill');
  withCommonOptions(resume, 'follow-up schedule resume nightly').action(
    action(async () => (await import('./schedule-orders.js')).resumeSchedule),
  );

  const trigger = named('trigger', "fire now, paused or not, under the schedule's own overlap policy");
  withCommonOptions(trigger, 'follow-up schedule trigger nightly').action(
    action(async () => (await import('./schedule-orders.js')).triggerSchedule),
  );

  const remove = named('delete', 'delete a schedule; batches that run go on');
  withCommonOptions(remove, 'follow-up schedule delete nightly').action(
    action(async () => (await import('./schedule-orders.js')).deleteSchedule),
  );

  const backfill = named(
    'backfill',
    'fire for every time of a past range that has not fired, paused or not; by default one after another',
  )
    .requiredOption('--from <instant>', 'the first time that counts; ISO 8601 with its zone')
    .requiredOption('--to <instant>', 'the last time that counts, not later than now')
    .addOption(
      new Option('--overlap <policy>', 'what each does while another is running (default: buffer-all)').choices(
        scheduleOverlaps,
      ),
    )
    .option('--yes', 'allow more than 100 firings, up to 999');
  withCommonOptions(
    backfill,
    'follow-up schedule backfill nightly \\\n      --from 2026-11-18T00:00:00Z --to 2026-11-21T00:00:00Z',
  ).action(action(async () => (await import('./schedule-orders.js')).backfillSchedule));
}
