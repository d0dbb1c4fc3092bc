import { randomUUID } from 'node:crypto';
import { type BudgetHandle, type BudgetUpdate, type ListedBudget, type RestoredBudget } from '../client/index.js';
import { describeBudget as describe, describeBudgetState } from '../budget/details.js';
import { defined } from '../contract/defined.js';
import {
  type BudgetSend,
  type BudgetStatus,
  formatDuration,
  parseFollowUpWorkflowId,
  type TakeInput,
} from '../contract/index.js';
import { BLOCKED } from '../follow-up/details.js';
import { safeLine } from '../terminal-text.js';
import { type Cli, ExitCode, interruptible, isLive, type Output } from './cli.js';
import { duration, number } from './options.js';
import { showLive } from './progress.js';
import { withTemporal } from './session.js';
import { clock, plainLines } from './text.js';

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
  if (!status) {
    return { projectId, workflowId, ...(statusUnavailable === undefined ? { state: 'idle' } : { statusUnavailable }) };
  }
  const { waiting: _waiting, lastSends: _lastSends, ...counts } = status;
  return { workflowId, ...counts };
}

function describeListed({ projectId, status, statusUnavailable }: ListedBudget): string {
  if (statusUnavailable !== undefined) return toRow(projectId, '?', '?', `does not answer: ${statusUnavailable}`);
  if (!status) return toRow(projectId, '-', '-', 'idle');
  const { used, limit, windowMs, waitingTotal } = status;
  const slots = `${used} of ${limit} in ${formatDuration(windowMs)}`;
  return toRow(projectId, slots, String(waitingTotal), describeState(status));
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

/** `follow-up budget take` */
export async function takeSlots(
  { env, output }: Cli,
  projectId: string,
  { count = '1', key = randomUUID() }: { count?: string; key?: string },
): Promise<ExitCode> {
  // If there is no answer, the same key makes another try safe.
  output.note(`key ${key}`);
  return withTemporal({ env, output }, async ({ followUps }) => {
    const input = { count: number(count), key } as TakeInput;
    const answer = await followUps.budget(projectId).take(input);
    const what = `${answer.count} ${answer.count === 1 ? 'slot' : 'slots'} of ${projectId}`;
    const text = answer.taken
      ? `took ${what}, ${clock(answer.takenAt)}`
      : `did not take ${what}: ${BLOCKED[answer.waitReason] ?? 'not so many are free'}` +
        (answer.possibleAt === undefined ? '' : `, possible ${clock(answer.possibleAt)}`);
    output.data({ projectId, key, ...answer }, text);
    return answer.taken ? ExitCode.ok : ExitCode.error;
  });
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
    output.data(restored, describeRestored(restored, await handle.look()));
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

function describeRestored({ projectId, settings, stopped }: RestoredBudget, update: BudgetUpdate): string {
  const limit = `${settings.limit} in ${formatDuration(settings.windowMs)}`;
  return [
    `the budget of ${projectId} runs again; its last run was ${stopped.status} ${clock(stopped.at)}`,
    'it first counts what was sent before, which can take some minutes; waiting follow-ups continue on their own',
    `the limit is ${limit}, and a pause by an operator is not kept: follow-up budget set, follow-up budget pause`,
    summariseBudgetUpdate(projectId, update),
  ].join('\n');
}

/** A budget for people, as the Temporal UI shows it. Clock times are local. */
export function describeBudget(status: BudgetStatus, now = new Date()): string {
  return plainLines(describe(status, now.getTime(), (at) => clock(at, now))).join('\n');
}

/** Whether a budget sends, on one line. Clock times are local. */
export function describeState(status: BudgetStatus): string {
  return plainLines(describeBudgetState(status, clock)).join(' ');
}

/** An update of a watched budget, in full. */
export function describeBudgetUpdate(projectId: string, update: BudgetUpdate, now = new Date()): string {
  const { state, status, statusUnavailable } = update;
  const warnings = [
    state === 'stopped' ? `STOPPED: nothing is sent until "follow-up budget restore ${projectId}"` : '',
    statusUnavailable === undefined ? '' : `no answer: ${safeLine(statusUnavailable)}${status ? '; last known:' : ''}`,
  ];
  const text = status ? describeBudget(status, now) : state === 'none' ? noBudgetText(projectId) : '';
  return [...warnings, text].filter(Boolean).join('\n');
}

/** An update of a watched budget, in one line that stays the same while nothing notable changes. */
export function summariseBudgetUpdate(projectId: string, { state, status, statusUnavailable }: BudgetUpdate): string {
  const silence = statusUnavailable === undefined ? '' : `no answer: ${safeLine(statusUnavailable)}`;
  if (!status) return silence || noBudgetText(projectId);
  const { used, limit, unsettled, waitingTotal, lastSends } = status;
  const [last] = lastSends;
  return [
    state === 'stopped' ? 'STOPPED' : '',
    silence && `${silence}; last known:`,
    `${used} of ${limit} slots used`,
    describeState(status),
    unsettled > 0 ? `${unsettled} under way` : '',
    waitingTotal > 0 ? `${waitingTotal} waiting` : '',
    last ? `last send ${clock(last.grantedAt)} ${last.outcome ?? 'under way'} ${safeLine(last.workflowId)}` : '',
  ]
    .filter(Boolean)
    .join(', ');
}

/** The text for a project that has sent nothing yet. */
export function noBudgetText(projectId: string): string {
  return `project ${projectId} has no budget yet: it gets one with its first follow-up; 0 slots used`;
}

/** One send in the audit, below {@link AUDIT_HEADER}. */
export function describeSend({ workflowId, sendNumber, grantedAt, settledAt, outcome }: BudgetSend): string {
  return [
    grantedAt,
    (settledAt ?? '-').padEnd(24),
    (outcome ?? 'under way').padEnd(12),
    String(sendNumber).padStart(4),
    safeLine(parseFollowUpWorkflowId(workflowId)?.jobId ?? '').padEnd(20),
    safeLine(workflowId),
  ].join('  ');
}

/** Names of the columns of {@link describeSend}. */
export const AUDIT_HEADER = [
  'granted'.padEnd(24),
  'settled'.padEnd(24),
  'outcome'.padEnd(12),
  'send',
  'job'.padEnd(20),
  'workflow',
].join('  ');
