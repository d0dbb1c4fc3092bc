import { randomUUID } from 'node:crypto';
import { describeBudget } from '../budget/budget-details.js';
import {
  type BudgetHandle,
  type BudgetUpdate,
  InvalidInputError,
  type ListedBudget,
  RefusedError,
  type RestoredBudget,
} from '../client/index.js';
import { defined, type Description } from '../common/index.js';
import {
  type BudgetStatus,
  formatDuration,
  type PauseInput,
  type SetLimitInput,
  takeInputSchema,
} from '../contract/index.js';
import { describeReason } from '../follow-up/follow-up-details.js';
import { safeLine } from '../node/terminal-text.js';
import { type Cli, ExitCode, interruptible, isLive, type Output } from './cli.js';
import { clock, counted, localTime, plain, toLines, toSummary } from './lines.js';
import { showLive } from './progress-rows.js';
import { withTemporal } from './session.js';

/** `follow-up budget list` */
export async function showBudgets({ env, output }: Cli): Promise<void> {
  await withTemporal({ env, output }, ({ followUps }) =>
    output.list(followUps.budgets(), {
      columns: ['project', 'used', 'waiting', 'state'],
      row: ({ projectId, status, statusUnavailable, trouble }) => {
        if (trouble) return [projectId, '-', '-', `${trouble.what}; to fix it: ${trouble.fix}`];
        if (statusUnavailable !== undefined) return [projectId, '?', '?', `does not answer: ${statusUnavailable}`];
        if (!status) return [projectId, '-', '-', 'idle'];
        const { used, limit, windowMs, waitingTotal } = status;
        const slots = `${used} of ${limit} in ${formatDuration(windowMs)}`;
        return [projectId, slots, String(waitingTotal), formatBudgetState(status)];
      },
      document: toDocument,
      none: 'no budget runs; each project gets its own with its first follow-up',
    }),
  );
}

/** Without the lists, because there may be a thousand projects. */
function toDocument({ projectId, workflowId, status, statusUnavailable, trouble }: ListedBudget): object {
  if (trouble) return { projectId, workflowId, trouble };
  if (!status) {
    return { projectId, workflowId, ...(statusUnavailable === undefined ? { state: 'idle' } : { statusUnavailable }) };
  }
  const { waiting: _waiting, lastSends: _lastSends, ...counts } = status;
  return { workflowId, ...counts };
}

/** `follow-up budget show` */
export async function showBudget(cli: Cli, projectId: string, { watch }: { watch?: boolean }): Promise<ExitCode> {
  return withTemporal(cli, async ({ followUps }) => {
    const budget = followUps.budget(projectId);
    if (watch === true) {
      await interruptible(cli, (signal) => watchBudget(cli.output, projectId, budget.watch({ signal })));
      return ExitCode.interrupted;
    }
    const state = await budget.state();
    const status = state === 'none' ? undefined : await budget.status();
    const trouble = state === 'running' ? undefined : await budget.trouble();
    const update = { state, ...defined({ trouble, status }) };
    cli.output.data(updateDocument(projectId, update), formatBudgetUpdate(projectId, update));
    return ExitCode.ok;
  });
}

function updateDocument(projectId: string, { status, ...update }: BudgetUpdate): object {
  return { ...update, ...(status ?? { projectId, used: 0, waiting: [], waitingTotal: 0, lastSends: [] }) };
}

/**
 * Shows the updates of a budget until they end: redrawn in place on a terminal, otherwise one line per change; with
 * `--json` one document per change.
 */
async function watchBudget(output: Output, projectId: string, updates: AsyncIterable<BudgetUpdate>): Promise<void> {
  const { json, stdout } = output;
  if (!json && isLive(stdout)) {
    await showLive(output, stdout, updates, (update) => formatBudgetUpdate(projectId, update));
    return;
  }
  let shown: string | undefined;
  for await (const update of updates) {
    const line = summariseBudgetUpdate(projectId, update);
    if (!json && line === shown) continue;
    shown = line;
    output.data(updateDocument(projectId, update), line);
  }
}

/** `follow-up budget audit` */
export async function auditBudget({ env, output }: Cli, projectId: string): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) =>
    output.list(await followUps.budget(projectId).audit(), {
      columns: ['granted', 'reported', 'outcome', 'send', 'workflow'],
      row: ({ workflowId, sendNumber, grantedAt, outcomeAt, outcome = 'in progress' }) => {
        return [localTime(grantedAt), outcomeAt ? localTime(outcomeAt) : '-', outcome, String(sendNumber), workflowId];
      },
      none: `project ${projectId} has sent nothing`,
    }),
  );
}

/** `follow-up budget set` */
export const setBudget = budgetCommand<SetLimitInput>((budget, { limit, window, reserve }) =>
  budget.setLimit(defined({ limit, window, reserve })),
);

/** `follow-up budget pause` */
export const pauseBudget = budgetCommand<PauseInput>((budget, { for: duration, note }) =>
  budget.pause(defined({ for: duration, note })),
);

/** `follow-up budget resume` */
export const resumeBudget = budgetCommand(async (budget, _options, projectId) => {
  // The library would start one, even for a mistyped project id.
  if ((await budget.state()) === 'none') throw new RefusedError('BudgetNotFound', projectId);
  return budget.resume();
});

/** A command that changes a budget. The library checks its options. */
function budgetCommand<Options>(
  give: (budget: BudgetHandle, options: Options, projectId: string) => Promise<BudgetStatus>,
) {
  return async ({ env, output }: Cli, projectId: string, options: Options): Promise<void> => {
    await withTemporal({ env, output }, async ({ followUps }) => {
      const status = await give(followUps.budget(projectId), options, projectId);
      output.data({ state: 'running', ...status }, toLines(describeBudget(status, clock)).join('\n'));
    });
  };
}

/** `follow-up budget take` */
export async function takeSlots(
  { env, output }: Cli,
  projectId: string,
  { count = 1, key = randomUUID() }: { count?: unknown; key?: string },
): Promise<ExitCode> {
  const take = InvalidInputError.check(takeInputSchema, { count, key });
  // Without a response, the same key makes a retry safe.
  output.note(`key ${key}`);
  return withTemporal({ env, output }, async ({ followUps }) => {
    const reply = await followUps.budget(projectId).take(take);
    const what = `${counted(reply.count, 'slot')} of ${projectId}`;
    const text = reply.taken
      ? `took ${what}, ${clock(reply.takenAt)}`
      : `did not take ${what}: ${describeReason(reply.waitReason, projectId)[0]}` +
        (reply.possibleAt === undefined ? '' : `, possible ${clock(reply.possibleAt)}`);
    output.data({ projectId, key, ...reply }, text);
    return reply.taken ? ExitCode.ok : ExitCode.error;
  });
}

/** `follow-up budget restore` */
export async function restoreBudget(
  { env, output }: Cli,
  projectId: string,
  { assumeFull }: { assumeFull?: boolean },
): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    const budget = followUps.budget(projectId);
    const restored = await budget.restore(defined({ assumeFull }));
    // The restore has succeeded even if no worker answers yet.
    const standing = summariseBudgetUpdate(projectId, await budget.look());
    output.data(restored, `${describeRestored(restored)}\n${standing}`);
  });
}

function describeRestored({ projectId, settings, stopped }: RestoredBudget): string {
  const limit = `${settings.limit} in ${formatDuration(settings.windowMs)}`;
  return [
    `the budget of ${projectId} runs again; its last run ended ${clock(stopped.at)} (${stopped.status})`,
    'it first counts earlier sends, which can take some minutes; waiting follow-ups continue automatically',
    `the limit is ${limit}, with a reserve of ${settings.reserve}; an operator's pause is not kept`,
  ].join('\n');
}

/** Describes the state of a budget on one line, in local time. */
export function formatBudgetState(status: BudgetStatus): string {
  return plain(describeBudget(status, clock).headline);
}

export function formatBudgetUpdate(projectId: string, update: BudgetUpdate): string {
  const { status } = update;
  return [...warningsOf(projectId, update), ...(status ? toLines(describe(status, update)) : [])].join('\n');
}

/** Describes an update of a watched budget on one line that stays the same without a notable change. */
export function summariseBudgetUpdate(projectId: string, update: BudgetUpdate): string {
  const { status } = update;
  return [...warningsOf(projectId, update), ...(status ? [toSummary(describe(status, update))] : [])].join(', ');
}

/** What a stopped budget was to do next is no longer true. */
function describe(status: BudgetStatus, { state, trouble }: Pick<BudgetUpdate, 'state' | 'trouble'>): Description {
  if (state !== 'stopped') return describeBudget(status, clock);
  const { nextFreeSlotAt: _nextFreeSlotAt, ...known } = status;
  const waiting = known.waiting.map(({ workflowId, lane, position }) => defined({ workflowId, lane, position }));
  const description = describeBudget({ ...known, waiting }, clock);
  const headline = `as of its end${trouble?.since ? `, ${clock(trouble.since)}` : ''}:`;
  return { ...description, headline, nextSteps: [] };
}

/** What a budget does, in one text, and what a person can do. */
export function describeStanding(projectId: string, update: BudgetUpdate) {
  const { state, status } = update;
  const warnings = warningsOf(projectId, update);
  if (state !== 'running' || !status) return { budget: warnings.join(', '), nextSteps: [] };
  const { headline, nextSteps } = describeBudget(status, clock);
  return { budget: [...warnings, headline].join(' '), nextSteps };
}

/** Warnings that a budget does not run, or its status missing or outdated. */
function warningsOf(projectId: string, { state, trouble, status, statusUnavailable }: BudgetUpdate): string[] {
  const silence = statusUnavailable && `no response: ${safeLine(statusUnavailable)}${status ? '; last known:' : ''}`;
  const none = trouble
    ? `the budget of ${projectId} ${trouble.what}; to start one: ${trouble.fix}`
    : `project ${projectId} has no budget yet: it gets one with its first follow-up; 0 slots used`;
  return [
    ...(state === 'stopped' ? [`STOPPED: nothing is sent until "follow-up budget restore ${projectId}"`] : []),
    ...(silence !== undefined ? [silence] : status ? [] : [none]),
  ];
}
