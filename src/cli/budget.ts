import type { Command } from 'commander';
import { describeBudget } from './budget-text.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up budget …` */
export function addBudgetCommand(program: Command, cli: Cli): void {
  const budget = program.command('budget').description("look at a project's send budget");
  const show = budget
    .command('show')
    .description('show slots, waiting list and last sends of a project')
    .argument('<project>', 'project id');
  withCommonOptions(show, 'follow-up budget show my-project').action(async (projectId: string) => {
    cli.exitCode = await withTemporal(cli.env, async ({ followUps }) => {
      const handle = followUps.budget(projectId);
      const state = await handle.state();
      const status = state === 'none' ? undefined : await handle.status();
      if (!status) {
        cli.output.data(
          { projectId, state: 'none', used: 0, waiting: [], waitingTotal: 0, lastSends: [] },
          `project ${projectId} has no budget yet: it gets one with its first follow-up; 0 slots used`,
        );
        return ExitCode.ok;
      }
      if (state === 'stopped')
        cli.output.note('warning: the budget workflow is stopped; nothing is sent until it runs again');
      cli.output.data({ state, ...status }, describeBudget(status));
      return ExitCode.ok;
    });
  });
}
