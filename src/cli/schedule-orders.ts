import type { Command } from 'commander';
import type { ScheduleDescription } from '../client/index.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { safeLine } from './safe-text.js';
import { describeTrigger } from './schedule-text.js';
import { inZone } from './schedule-times-text.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up schedule pause`, `resume`, `trigger` and `delete` */
export function addScheduleOrderCommands(schedule: Command, cli: Cli): void {
  const named = (order: string, description: string) =>
    schedule.command(order).description(description).argument('<name>', 'as "follow-up schedule list" prints it');

  const pause = named('pause', 'fire no more until it is resumed; a batch that runs goes on').option(
    '--note <text>',
    'shown with the schedule, in the place of its note (default: that stays)',
  );
  withCommonOptions(pause, 'follow-up schedule pause nightly --note "release freeze"').action(
    async (name: string, { note }: { note?: string }) => {
      await withTemporal(cli.env, async ({ followUps: { schedules } }) => {
        cli.output.data(await schedules.handle(name).pause(note), `${name} is paused`);
      });
      cli.exitCode = ExitCode.ok;
    },
  );

  const resume = named('resume', 'fire again from the next time on; what was due meanwhile is for backfill').option(
    '--note <text>',
    'shown with the schedule, in the place of its note (default: that stays)',
  );
  withCommonOptions(resume, 'follow-up schedule resume nightly').action(
    async (name: string, { note }: { note?: string }) => {
      await withTemporal(cli.env, async ({ followUps: { schedules } }) => {
        const description = await schedules.handle(name).resume(note);
        cli.output.data(description, `${name} is resumed; ${nextText(description)}`);
      });
      cli.exitCode = ExitCode.ok;
    },
  );

  const trigger = named('trigger', "fire now, paused or not, under the schedule's own overlap policy");
  withCommonOptions(trigger, 'follow-up schedule trigger nightly').action(async (name: string) => {
    await withTemporal(cli.env, async ({ followUps: { schedules } }) => {
      const triggered = await schedules.handle(name).trigger();
      cli.output.data(triggered, describeTrigger(name, triggered));
    });
    cli.exitCode = ExitCode.ok;
  });

  const remove = named('delete', 'delete a schedule; batches that run go on');
  withCommonOptions(remove, 'follow-up schedule delete nightly').action(async (name: string) => {
    await withTemporal(cli.env, async ({ followUps: { schedules } }) => {
      const { runningBatchIds } = await schedules.handle(name).delete();
      const goesOn = runningBatchIds.length > 0 ? `; still running: ${runningBatchIds.map(safeLine).join(', ')}` : '';
      cli.output.data({ name, deleted: true, runningBatchIds }, `${name} is deleted${goesOn}`);
    });
    cli.exitCode = ExitCode.ok;
  });
}

function nextText({ nextFirings: [next], times: { timeZone } }: ScheduleDescription): string {
  return next === undefined ? 'no firing is to come' : `next firing ${inZone(next, timeZone)} ${safeLine(timeZone)}`;
}
