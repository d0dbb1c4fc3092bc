import type { Command } from 'commander';
import { type LazyAction, withCommonOptions } from './options.js';

/** `follow-up budget …` */
export function addBudgetCommands(program: Command, action: LazyAction): void {
  const budget = program.command('budget').description("look at a project's send budget, change it, restore it");
  const named = (name: string, description: string) =>
    budget.command(name).description(description).argument('<project>', 'project id');

  const list = budget.command('list').description('list the running budgets of all projects: slots, queue, pauses');
  withCommonOptions(list, 'follow-up budget list --json').action(
    action(async () => (await import('./budget-list.js')).listBudgets),
  );

  const show = named('show', 'show slots, waiting list and last sends of a project').option(
    '-w, --watch',
    'go on showing it, live on a terminal, else a line a change; Ctrl-C ends it',
  );
  withCommonOptions(show, 'follow-up budget show my-project --watch').action(
    action(async () => (await import('./budget-show.js')).showBudget),
  );

  const set = named('set', 'change limit, window or reserve at once; what is not given stays')
    .option('--limit <n>', 'messages per window, 0 to 10000; over a lower limit nothing is sent until slots have ended')
    .option('--window <duration>', 'length of the rolling window, 1s to 365d')
    .option('--reserve <n>', 'slots that the batch lane leaves free, below the limit');
  withCommonOptions(set, 'follow-up budget set my-project --limit 50 --window 1h --reserve 10').action(
    action(async () => (await import('./budget-orders.js')).setBudget),
  );

  const pause = named('pause', 'let nothing through; what is being sent goes on, and the queue is kept')
    .option('--for <duration>', 'resume by itself after that long (default: until it is resumed)')
    .option('--note <text>', 'shown with the pause, at most 200 characters');
  withCommonOptions(pause, 'follow-up budget pause my-project --for 30m --note "release freeze"').action(
    action(async () => (await import('./budget-orders.js')).pauseBudget),
  );

  const resume = named('resume', 'end a pause; where the service caused it, the next follow-up tries at once');
  withCommonOptions(resume, 'follow-up budget resume my-project').action(
    action(async () => (await import('./budget-orders.js')).resumeBudget),
  );

  const audit = named(
    'audit',
    'list the last 100 sends, newest first: when each was granted and settled, and how it ended',
  );
  withCommonOptions(audit, 'follow-up budget audit my-project --json').action(
    action(async () => (await import('./budget-show.js')).auditBudget),
  );

  const restore = named(
    'restore',
    'start a stopped budget again, or one whose tasks fail, with what it knew; waiting follow-ups go on by themselves',
  )
    .option(
      '--assume-full',
      'where its history is lost: take every slot for spent and every follow-up that began before for sent',
    )
    .option(
      '--in-flight <duration>',
      'with --assume-full: FOLLOW_UP_SEND_TIMEOUT + 30s + FOLLOW_UP_DRAIN of the workers, within which what was granted arrives (default: 3m)',
    );
  withCommonOptions(restore, 'follow-up budget restore my-project').action(
    action(async () => (await import('./budget-orders.js')).restoreBudget),
  );
}
