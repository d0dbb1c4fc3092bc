import {
  type BudgetHandle,
  type BudgetUpdate,
  type ListedBudget,
  type RestoredBudget,
  WorkerUnavailableError,
} from '../client/index.js';
import { defined } from '../contract/defined.js';
import { type BudgetStatus, formatDuration } from '../contract/index.js';
import { safeLine } from '../terminal-text.js';
import {
  AUDIT_HEADER,
  describeBudget,
  describeBudgetUpdate,
  describeSend,
  noBudgetText,
  stateOf,
  summariseBudgetUpdate,
} from './budget-text.js';
import { type Cli, ExitCode, interruptible, isLive, type Output } from './cli.js';
import { duration, number } from './command-options.js';
import { clock } from './follow-up-text.js';
import { showLive } from './progress-view.js';
import { withTemporal } from './temporal-session.js';

const HEADER = toRow('project', 'used', 'waiting', 'state');

/** `follow-up budget list` */
export async function listBudgets({ env, output }: Cli): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    let count = 0;
    for await (const budget of followUps.budgets()) {
      if (count++ === 0 && !output.json) output.data(undefined, HEADER);
      output.data(toJson(budget), describeListed(budget));
    }
    if (count === 0) output.note('no budget runs; each project gets its own with its first follow-up');
  });
}

/** Without the lists: there may be a thousand projects, one line each. */
function toJson({ projectId, workflowId, status, statusUnavailable }: ListedBudget): object {
  if (!status) return { projectId, workflowId, statusUnavailable };
  const { waiting: _waiting, lastSends: _lastSends, ...counts } = status;
  return { workflowId, ...counts };
}

function describeListed({ projectId, status, statusUnavailable }: ListedBudget): string {
  if (!status) return toRow(projectId, '?', '?', `does not answer: ${statusUnavailable ?? 'it has not begun'}`);
  const { used, limit, windowMs, waitingTotal } = status;
  const slots = `${used} of ${limit} in ${formatDuration(windowMs)}`;
  return toRow(projectId, slots, String(waitingTotal), stateOf(status));
}

function toRow(project: string, used: string, waiting: string, state: string): string {
  return [project.padEnd(24), used.padEnd(18), waiting.padStart(7), safeLine(state)].join('  ');
}

/** `follow-up budget show` */
export async function showBudget(cli: Cli, projectId: string, { watch }: { watch?: boolean }): Promise<ExitCode> {
  return withTemporal(cli, async ({ followUps }) => {
    const handle = followUps.budget(projectId);
    if (watch !== true) return showOnce(cli, handle);
    await interruptible(cli, (signal) => showBudgetWatch(cli.output, projectId, handle.watch({ signal })));
    return ExitCode.interrupted;
  });
}

/** `follow-up budget audit` */
export async function auditBudget({ env, output }: Cli, projectId: string): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    const sends = await followUps.budget(projectId).audit();
    if (sends.length === 0) output.note(`project ${projectId} has sent nothing`);
    else if (!output.json) output.data(undefined, AUDIT_HEADER);
    for (const send of sends) output.data(send, describeSend(send));
  });
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

/**
 * Shows the updates of a budget until they end: redrawn in place on a terminal, otherwise a line whenever something
 * changes; with `--json` one document per change.
 */
async function showBudgetWatch(output: Output, projectId: string, updates: AsyncIterable<BudgetUpdate>): Promise<void> {
  const { json, stdout } = output;
  if (!json && isLive(stdout)) {
    await showLive(output, stdout, updates, (update) => describeBudgetUpdate(projectId, update));
    return;
  }
  let shown: string | undefined;
  for await (const update of updates) {
    const line = summariseBudgetUpdate(projectId, update);
    if (!output.json && line === shown) continue;
    shown = line;
    output.data({ projectId, ...update }, line);
  }
}

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
}

/** `follow-up budget set` */
export async function setBudget(cli: Cli, projectId: string, { limit, window, reserve }: SetOptions): Promise<void> {
  const fields = { limit: number(limit), window: duration(window), reserve: number(reserve) };
  const change = defined<Record<string, unknown>>(fields);
  await order(cli, projectId, (budget) => budget.setLimit(change));
}

/** `follow-up budget pause` */
export async function pauseBudget(cli: Cli, projectId: string, options: PauseOptions): Promise<void> {
  const pause = defined({ for: duration(options.for), note: options.note });
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
  { assumeFull }: RestoreOptions,
): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    const handle = followUps.budget(projectId);
    const restored = await handle.restore(defined({ assumeFull }));
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

function describeRestored({ projectId, settings, stopped }: RestoredBudget, standing: string): string {
  const limit = `${settings.limit} in ${formatDuration(settings.windowMs)}`;
  return [
    `the budget of ${projectId} runs again; its last run was ${stopped.status} ${clock(stopped.at)}`,
    'it first counts what was sent before, which can take some minutes; waiting follow-ups continue on their own',
    `the limit is ${limit}, and a pause by an operator is not kept: follow-up budget set, follow-up budget pause`,
    standing,
  ]
    .filter(Boolean)
    .join('\n');
}

/** The state of the restored budget. If no worker answers yet, the restore has still succeeded. */
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
