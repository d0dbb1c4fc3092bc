import type { Command } from 'commander';
import { listBudgets } from './budget-list.js';
import { addBudgetAuditCommand } from './budget-audit.js';
import { addBudgetOrderCommands } from './budget-orders.js';
import { addBudgetRestoreCommand } from './budget-restore.js';
import { addBudgetShowCommand } from './budget-show.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';

/** `follow-up budget …` */
export function addBudgetCommand(program: Command, cli: Cli): void {
  const budget = program.command('budget').description("look at a project's send budget, change it, restore it");
  const list = budget.command('list').description('list the running budgets of all projects: slots, queue, pauses');
  withCommonOptions(list, 'follow-up budget list --json').action(async () => {
    await listBudgets(cli);
    cli.exitCode = ExitCode.ok;
  });
  addBudgetShowCommand(budget, cli);
  addBudgetOrderCommands(budget, cli);
  addBudgetAuditCommand(budget, cli);
  addBudgetRestoreCommand(budget, cli);
}
