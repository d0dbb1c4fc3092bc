import { type Command, Option } from 'commander';
import { type BackfilledRange, MAX_BACKFILL_FIRINGS, type ScheduleOverlap, scheduleOverlaps } from '../client/index.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { describeOverlap } from './schedule-text.js';
import { withTemporal } from './temporal-session.js';

interface BackfillOptions {
  from: string;
  to: string;
  overlap?: ScheduleOverlap;
  yes?: boolean;
}

/** `follow-up schedule backfill` */
export function addScheduleBackfillCommand(schedule: Command, cli: Cli): void {
  const backfill = schedule
    .command('backfill')
    .description('fire for every time of a past range that has not fired, paused or not; by default one after another')
    .argument('<name>', 'as "follow-up schedule list" prints it')
    .requiredOption('--from <instant>', 'the first time that counts; ISO 8601 with its zone')
    .requiredOption('--to <instant>', 'the last time that counts, not later than now')
    .addOption(
      new Option('--overlap <policy>', 'what each does while another is running (default: buffer-all)').choices(
        scheduleOverlaps,
      ),
    )
    .option('--yes', `allow more than 100 firings, up to ${MAX_BACKFILL_FIRINGS}`);
  withCommonOptions(
    backfill,
    'follow-up schedule backfill nightly --from 2026-11-18T00:00:00Z --to 2026-11-21T00:00:00Z',
  ).action(async (name: string, { from, to, overlap, yes }: BackfillOptions) => {
    const input = {
      from,
      to,
      ...(overlap !== undefined && { overlap }),
      ...(yes && { maxFirings: MAX_BACKFILL_FIRINGS }),
    };
    await withTemporal(cli.env, async ({ followUps: { schedules } }) => {
      const range = await schedules.handle(name).backfill(input);
      cli.output.data({ name, ...range }, describeBackfill(range));
    });
    cli.exitCode = ExitCode.ok;
  });
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
