import type { Command } from 'commander';
import { type BudgetHandle, type RestoredBudget, WorkerUnavailableError } from '../client/index.js';
import { formatDuration } from '../contract/index.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { duration, given } from './follow-up-options.js';
import { clock } from './progress-text.js';
import { withTemporal } from './temporal-session.js';

interface RestoreOptions {
  assumeFull?: boolean;
  inFlight?: string;
}

/** `follow-up budget restore` */
export function addBudgetRestoreCommand(budget: Command, cli: Cli): void {
  const restore = budget
    .command('restore')
    .description('start a budget again that is stopped, or whose tasks fail, with what it knew; waiting follow-ups go on by themselves')
    .argument('<project>', 'project id')
    .option(
      '--assume-full',
      'where its history is lost: take every slot for spent and every follow-up that began before for sent',
    )
    .option(
      '--in-flight <duration>',
      'with --assume-full: FOLLOW_UP_SEND_TIMEOUT + 30s + FOLLOW_UP_DRAIN of the workers, within which what was granted arrives (default: 3m)',
    );
  withCommonOptions(restore, 'follow-up budget restore my-project').action(
    async (projectId: string, { assumeFull, inFlight }: RestoreOptions) => {
      await withTemporal(cli.env, async ({ followUps }) => {
        const handle = followUps.budget(projectId);
        const restored = await handle.restore(given({ assumeFull, inFlight: duration(inFlight) }));
        cli.output.data(restored, describeRestored(restored, await lookAt(handle)));
      });
      cli.exitCode = ExitCode.ok;
    },
  );
}

function describeRestored(restored: RestoredBudget, standing: string): string {
  const { projectId, settings, stopped, from, fullUntil } = restored;
  const limit = `${settings.limit} in ${formatDuration(settings.windowMs)}`;
  const meaning =
    from === 'lastState'
      ? [
          'it goes on where that run ended: slots, queue, pauses and memory are as they were',
          'follow-ups that wait go on by themselves, all within a minute',
        ]
      : [
          `every slot is taken: nothing is sent before ${fullUntil === undefined ? 'one window has passed' : clock(fullUntil)}`,
          'follow-ups that began before and were not sent count as sent: each looks for a sign of it at its job, and fails with DeliveryUnknown where there is none',
          `the limit is ${limit}; "follow-up budget set" changes it`,
        ];
  return [
    `the budget of ${projectId} runs again; its last run was ${stopped.status} ${clock(stopped.at)}`,
    ...meaning,
    standing,
  ]
    .filter(Boolean)
    .join('\n');
}

/** How it stands now. It has been started: that no worker answers yet is no failure of the restore. */
async function lookAt(handle: BudgetHandle): Promise<string> {
  try {
    const status = await handle.status();
    if (!status) return '';
    return `${status.used} of ${status.limit} slots used, ${status.waitingTotal} waiting`;
  } catch (error) {
    if (error instanceof WorkerUnavailableError) return `it does not answer yet: ${error.reason}`;
    throw error;
  }
}
