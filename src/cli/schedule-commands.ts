import type { Command } from 'commander';
import { scheduleOverlaps } from '../contract/choices.js';
import { addLimitOptions, choice, type LazyAction, withCommonOptions } from './command-options.js';

const CREATE_HELP = `
Cron: minute, hour, day of month, month, day of week, or @hourly, @daily,
@weekly, @monthly, @yearly. Day of month and day of week must both match.

FILE has one follow-up as JSON per line, as for "follow-up batch run", or is one
JSON document: {"items": […]} or {"projectId": …, "prompt": …, "jobIds": […]}.
You cannot change a schedule: delete it and create it again.`;

/** The commands that take the name of a schedule. */
const NAMED = {
  describe: 'show the times and policies of a schedule, its next 5 firings and its latest 10',
  pause: 'stop firing until resumed; a running batch continues',
  resume: 'fire again from the next time on',
  trigger: "fire now, even while paused, under the schedule's overlap policy",
  delete: 'delete a schedule; running batches continue',
};

/** `follow-up schedule …` */
export function addScheduleCommands(program: Command, action: LazyAction): void {
  const schedule = program.command('schedule').description('start batches of follow-ups at set times');

  const create = schedule
    .command('create')
    .description('start a batch of follow-ups at set times; each firing is a batch of its own')
    .argument('<name>', 'unique in the namespace; 1 to 99 of A-Z a-z 0-9 . _ ~ -')
    .argument('<file>', 'the batch, at most 256 KiB of JSON; - reads stdin')
    .option('--cron <expression>', 'when to fire, such as "0 2 * * MON-FRI"')
    .option('--every <duration>', 'fire at this interval from 1970-01-01T00:00:00Z on, 1s to 365d')
    .option('--offset <duration>', 'with --every: how long after the start of each interval to fire (default: 0)')
    .option('--time-zone <zone>', 'with --cron: its time zone, such as Europe/Berlin (default: UTC)')
    .addOption(
      choice('--overlap <policy>', 'what to do if the previous firing still runs (default: skip)', scheduleOverlaps),
    )
    .option('--catch-up-window <duration>', 'how late a firing may start after an outage of Temporal (default: 1h)')
    .option('--limit <n>', 'maximum number of firings (default: no limit)')
    .option('--note <text>', 'shown with the schedule')
    .option('--paused', 'create it paused, until "follow-up schedule resume"');
  addLimitOptions(create).addHelpText('after', CREATE_HELP);
  const example = 'nightly jobs.jsonl \\\n      --cron "0 4 * * MON-FRI" --time-zone Europe/Berlin';
  withCommonOptions(create, `follow-up schedule create ${example}`).action(
    action(async () => (await import('./schedule-actions.js')).createSchedule),
  );

  const list = schedule.command('list').description('list schedules with their next firing');
  withCommonOptions(list, 'follow-up schedule list --json').action(
    action(async () => (await import('./schedule-actions.js')).listSchedules),
  );

  for (const name of Object.keys(NAMED) as (keyof typeof NAMED)[]) {
    const command = schedule.command(name).description(NAMED[name]);
    command.argument('<schedule>', 'as "follow-up schedule list" prints it');
    if (name === 'pause') command.option('--note <reason>', 'shown instead of its own note until it is resumed');
    withCommonOptions(command, `follow-up schedule ${name} nightly`).action(
      action(async () => (await import('./schedule-actions.js')).orders[name]),
    );
  }
}
