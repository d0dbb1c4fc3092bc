import type { Command } from 'commander';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { describeScheduleText, summariseSchedule } from './schedule-text.js';
import { withTemporal } from './temporal-session.js';

/** Latest firings of each schedule in the list. */
const LISTED_FIRINGS = 3;

/** `follow-up schedule list` and `describe` */
export function addScheduleViewCommands(schedule: Command, cli: Cli): void {
  const list = schedule
    .command('list')
    .description('list schedules with their next firing, and what has become of their latest ones');
  withCommonOptions(list, 'follow-up schedule list --json').action(async () => {
    await withTemporal(cli.env, async ({ followUps: { schedules } }) => {
      let count = 0;
      for await (const description of schedules.list()) {
        const firings = await schedules.outcomes(description.recentFirings.slice(0, LISTED_FIRINGS));
        cli.output.data({ ...description, recentFirings: firings }, summariseSchedule(description, firings));
        count++;
      }
      if (count === 0) cli.output.note('no schedules found; a new one may take a second to be listed');
    });
    cli.exitCode = ExitCode.ok;
  });

  const describe = schedule
    .command('describe')
    .description('show when a schedule fires, its policies, its next 5 firings and its latest 10 with their outcomes')
    .argument('<name>', 'as "follow-up schedule list" prints it');
  withCommonOptions(describe, 'follow-up schedule describe nightly').action(async (name: string) => {
    await withTemporal(cli.env, async ({ followUps: { schedules } }) => {
      const description = await schedules.handle(name).describe();
      const firings = await schedules.outcomes(description.recentFirings);
      cli.output.data({ ...description, recentFirings: firings }, describeScheduleText(description, firings));
    });
    cli.exitCode = ExitCode.ok;
  });
}
