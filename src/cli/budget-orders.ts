import { type BudgetHandle, type RestoredBudget, WorkerUnavailableError } from '../client/index.js';
import { type BudgetStatus, formatDuration } from '../contract/index.js';
import { describeBudget } from './budget-text.js';
import type { Cli } from './cli.js';
import { duration, given, number } from './follow-up-options.js';
import { clock } from './follow-up-text.js';
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

interface RestoreOptions {
  assumeFull?: boolean;
  inFlight?: string;
}

/** `follow-up budget set` */
export async function setBudget(cli: Cli, projectId: string, { limit, window, reserve }: SetOptions): Promise<void> {
  const change = given({ limit: number(limit), window: duration(window), reserve: number(reserve) });
  await order(cli, projectId, (budget) => budget.setLimit(change));
}

/** `follow-up budget pause` */
export async function pauseBudget(cli: Cli, projectId: string, options: PauseOptions): Promise<void> {
  const pause = given({ for: duration(options.for), note: options.note });
  await order(cli, projectId, (budget) => budget.pause(pause));
}

/** `follow-up budget resume` */
export async function resumeBudget(cli: Cli, projectId: string): Promise<void> {
  await order(cli, projectId, (budget) => budget.resume());
}

/** `follow-up budget restore` */
export async function restoreBudget(
  { env, output }: Cli,
  projectId: string,
  { assumeFull, inFlight }: RestoreOptions,
): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    const handle = followUps.budget(projectId);
    const restored = await handle.restore(given({ assumeFull, inFlight: duration(inFlight) }));
    output.data(restored, describeRestored(restored, await lookAt(handle)));
  });
}

async function order(
  { env, output }: Cli,
  projectId: string,
  give: (budget: BudgetHandle) => Promise<BudgetStatus>,
): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    const status = await give(followUps.budget(projectId));
    output.data({ state: 'running', ...status }, describeBudget(status));
  });
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
