import type { Command } from 'commander';
import type { BudgetHandle } from '../client/index.js';
import { type BudgetStatus } from '../contract/index.js';
import { describeBudget } from './budget-text.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { duration, given, number } from './follow-up-options.js';
import { withTemporal } from './temporal-session.js';

interface SetOptions {
  limit?: string;
  window?: string;
  reserve?: string;
}

interface PauseOptions {
  for?: string;
  note?: string;
}

/** `follow-up budget set`, `pause` and `resume` */
export function addBudgetOrderCommands(budget: Command, cli: Cli): void {
  const order = async (projectId: string, give: (handle: BudgetHandle) => Promise<BudgetStatus>) => {
    await withTemporal(cli.env, async ({ followUps }) => {
      const status = await give(followUps.budget(projectId));
      cli.output.data({ state: 'running', ...status }, describeBudget(status));
    });
    cli.exitCode = ExitCode.ok;
  };

  const set = budget
    .command('set')
    .description('change limit, window or reserve at once; what is not given stays')
    .argument('<project>', 'project id')
    .option('--limit <n>', 'messages per window, 0 to 10000; over a lower limit nothing is sent until slots have ended')
    .option('--window <duration>', 'length of the rolling window, 1s to 365d')
    .option('--reserve <n>', 'slots that the batch lane leaves free, below the limit');
  withCommonOptions(set, 'follow-up budget set my-project --limit 50 --window 1h --reserve 10').action(
    (projectId: string, { limit, window, reserve }: SetOptions) =>
      order(projectId, (handle) =>
        handle.setLimit(given({ limit: number(limit), window: duration(window), reserve: number(reserve) })),
      ),
  );

  const pause = budget
    .command('pause')
    .description('let nothing through; what is being sent goes on, and the queue is kept')
    .argument('<project>', 'project id')
    .option('--for <duration>', 'resume by itself after that long (default: until it is resumed)')
    .option('--note <text>', 'shown with the pause, at most 200 characters');
  withCommonOptions(pause, 'follow-up budget pause my-project --for 30m --note "release freeze"').action(
    (projectId: string, options: PauseOptions) =>
      order(projectId, (handle) => handle.pause(given({ for: duration(options.for), note: options.note }))),
  );

  const resume = budget
    .command('resume')
    .description('end a pause; where the service caused it, the next follow-up tries at once')
    .argument('<project>', 'project id');
  withCommonOptions(resume, 'follow-up budget resume my-project').action((projectId: string) =>
    order(projectId, (handle) => handle.resume()),
  );
}
