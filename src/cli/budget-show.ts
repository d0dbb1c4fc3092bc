import type { Command } from 'commander';
import type { BudgetHandle } from '../client/index.js';
import { describeBudget, noBudgetText } from './budget-text.js';
import { showBudgetWatch } from './budget-view.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { interruptible } from './interrupt.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up budget show` */
export function addBudgetShowCommand(budget: Command, cli: Cli): void {
  const show = budget
    .command('show')
    .description('show slots, waiting list and last sends of a project')
    .argument('<project>', 'project id')
    .option('-w, --watch', 'go on showing it, live on a terminal, else a line a change; Ctrl-C ends it');
  withCommonOptions(show, 'follow-up budget show my-project --watch').action(
    async (projectId: string, { watch = false }: { watch?: boolean }) => {
      cli.exitCode = await withTemporal(cli.env, async ({ followUps }) => {
        const handle = followUps.budget(projectId);
        return watch ? watchBudget(cli, handle) : showOnce(cli, handle);
      });
    },
  );
}

async function showOnce({ output }: Cli, handle: BudgetHandle): Promise<ExitCode> {
  const { projectId } = handle;
  const state = await handle.state();
  const status = state === 'none' ? undefined : await handle.status();
  if (!status) {
    output.data(
      { projectId, state: 'none', used: 0, waiting: [], waitingTotal: 0, lastSends: [] },
      noBudgetText(projectId),
    );
    return ExitCode.ok;
  }
  if (state === 'stopped') {
    output.note(
      `warning: the budget is stopped; nothing is sent until it runs again, with "follow-up budget restore ${projectId}"`,
    );
  }
  output.data({ state, ...status }, describeBudget(status));
  return ExitCode.ok;
}

async function watchBudget({ output }: Cli, handle: BudgetHandle): Promise<ExitCode> {
  await interruptible((signal) => showBudgetWatch(output, handle.projectId, handle.watch({ signal })));
  return ExitCode.interrupted;
}
