import type { Command } from 'commander';
import { type LazyAction, withCommonOptions } from './command-options.js';

/** `follow-up budget …` */
export function addBudgetCommands(program: Command, action: LazyAction): void {
  const budget = program.command('budget').description('show, change, pause and restore the budget of a project');
  const named = (name: string, description: string) =>
    budget.command(name).description(description).argument('<project>', 'project id');

  const list = budget.command('list').description('list the running budgets of all projects: slots, queue, pauses');
  withCommonOptions(list, 'follow-up budget list --json').action(
    action(async () => (await import('./budget-actions.js')).listBudgets),
  );

  const show = named('show', 'show the slots, the queue and the last sends of a project').option(
    '-w, --watch',
    'keep showing it: live on a terminal, otherwise one line per change; Ctrl-C ends it',
  );
  withCommonOptions(show, 'follow-up budget show my-project --watch').action(
    action(async () => (await import('./budget-actions.js')).showBudget),
  );

  const set = named('set', 'change the limit, window or reserve at once; the others stay')
    .option(
      '--limit <n>',
      'messages per window, 0 to 10000; above a lower limit, nothing is sent until slots have ended',
    )
    .option('--window <duration>', 'length of the rolling window, 1s to 365d')
    .option('--reserve <n>', 'slots that the batch lane leaves free, below the limit');
  withCommonOptions(set, 'follow-up budget set my-project --limit 50 --window 1h --reserve 10').action(
    action(async () => (await import('./budget-actions.js')).setBudget),
  );

  const pause = named('pause', 'stop sending; running sends finish, and the queue is kept')
    .option('--for <duration>', 'resume automatically after this time (default: wait for "budget resume")')
    .option('--note <text>', 'shown with the pause, at most 200 characters');
  withCommonOptions(pause, 'follow-up budget pause my-project --for 30m --note "release freeze"').action(
    action(async () => (await import('./budget-actions.js')).pauseBudget),
  );

  const resume = named('resume', 'end a pause; if the service caused it, the next follow-up tries at once');
  withCommonOptions(resume, 'follow-up budget resume my-project').action(
    action(async () => (await import('./budget-actions.js')).resumeBudget),
  );

  const audit = named(
    'audit',
    'list the latest sends, newest first: when each was granted and settled, and its outcome',
  );
  withCommonOptions(audit, 'follow-up budget audit my-project --json').action(
    action(async () => (await import('./budget-actions.js')).auditBudget),
  );

  const restore = named(
    'restore',
    'start a stopped budget again, or one whose tasks fail; it counts for itself what was sent, and waiting follow-ups continue',
  ).option('--assume-full', 'also count every slot that is left as used, so that nothing is sent for one window');
  withCommonOptions(restore, 'follow-up budget restore my-project').action(
    action(async () => (await import('./budget-actions.js')).restoreBudget),
  );
}
