import type { Command } from 'commander';
import { addBudgetAuditCommand } from './budget-audit.js';
import { addBudgetOrderCommands } from './budget-orders.js';
import { addBudgetRestoreCommand } from './budget-restore.js';
import { addBudgetShowCommand } from './budget-show.js';
import type { Cli } from './cli.js';

/** `follow-up budget …` */
export function addBudgetCommand(program: Command, cli: Cli): void {
  const budget = program.command('budget').description("look at a project's send budget, change it, restore it");
  addBudgetShowCommand(budget, cli);
  addBudgetOrderCommands(budget, cli);
  addBudgetAuditCommand(budget, cli);
  addBudgetRestoreCommand(budget, cli);
}
