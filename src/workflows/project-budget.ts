import {
  allHandlersFinished,
  CancellationScope,
  condition,
  getExternalWorkflowHandle,
  patched,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.js';
import { Budget, type FollowUpSignal } from '../budget/budget.js';
import { describeBudget, SHOWN_SENDS } from '../budget/budget-details.js';
import { BudgetLoop, type BudgetPort } from '../budget/loop.js';
import { wasDelivered } from '../budget/sends.js';
import { type BudgetState, newState } from '../budget/state.js';
import { budgetStatus } from '../budget/status.js';
import { trim } from '../budget/trim.js';
import { instantMsSchema, toMarkdown } from '../common/index.js';
import {
  type BudgetStatus,
  budgetStatusQuery,
  parseFollowUpWorkflowId,
  parseInput,
  projectBudgetWorkflowId,
} from '../contract/index.js';
import {
  askSchema,
  askUpdate,
  followUpReportSchema,
  type ProjectBudgetInput,
  projectBudgetInputSchema,
  replySignal,
  reportSignal,
  wakeSignal,
  wasDeliveredQuery,
} from '../protocol/index.js';
import { createBudgetMetrics } from './budget-metrics.js';
import { handleUpdates } from './budget-updates.js';
import { accept, invalidInput } from './failures.js';
import { continueAsNew, hasCarriedState, isContinued, isNextRunDue } from './this-run.js';

const { listRecentSends } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '20s',
  // A longer retry would block the workflow task, which could not reply to asks meanwhile.
  localRetryThreshold: '1s',
  retry: { initialInterval: '5s', maximumInterval: '5m' },
});

/**
 * The budget of one project, which alone decides who may send. It never completes: it continues as new with its state,
 * and refuses to be cancelled, because follow-ups depend on it. {@link BudgetLoop} has the steps.
 *
 * @param carried state of the previous run, which only continue-as-new may pass
 * @throws ApplicationFailure `InvalidInput`
 */
export async function projectBudget(input: ProjectBudgetInput, carried?: BudgetState): Promise<never> {
  const { projectId, settings, assumeFull = false } = accept(parseInput(projectBudgetInputSchema, input));
  const { startTime, workflowId } = workflowInfo();
  const ownId = projectBudgetWorkflowId(projectId);
  if (workflowId !== ownId)
    throw invalidInput([{ field: 'workflowId', message: `must be ${ownId} (given ${workflowId})` }]);
  // Anyone can start a budget with made-up state, so only the state of a previous run is accepted.
  const state = hasCarriedState() ? carried : undefined;
  const budget = new Budget(state ?? newState(settings, startTime.getTime()));
  let isAskedToCancel = false;
  const loop = new BudgetLoop(
    budget,
    createPort(projectId, budget, () => isAskedToCancel),
  );
  CancellationScope.current().cancelRequested.catch(() => {
    isAskedToCancel = true;
    loop.change(() => undefined);
  });
  listen(projectId, loop, () => isAskedToCancel);
  await CancellationScope.nonCancellable(() => loop.run(assumeFull && state === undefined));
  trim(budget.state);
  return continueAsNew<typeof projectBudget>({ projectId, settings }, budget.state);
}

function listen(projectId: string, loop: BudgetLoop, isAskedToCancel: () => boolean): void {
  const { budget } = loop;
  const status = (nowMs: number, about?: string): BudgetStatus =>
    budgetStatus(projectId, budget.state, nowMs, { about, cancelRefused: isAskedToCancel() });
  const reply = (nowMs?: unknown, about?: unknown) => {
    const now = instantMsSchema.safeParse(nowMs).data ?? Date.now();
    return status(now, typeof about === 'string' ? about : undefined);
  };
  setHandler(budgetStatusQuery, reply, { description: 'Slots, queue and last sends' });
  setHandler(wasDeliveredQuery, (asker) => wasDelivered(budget.state, asker));
  setHandler(reportSignal, (report: unknown) => {
    const parsed = parseInput(followUpReportSchema, report);
    if (parsed.ok && isOfProject(projectId, parsed.value.workflowId)) loop.receive(parsed.value);
  });
  setHandler(askUpdate, (ask) => ({ ...loop.ask(ask), repliedAtMs: Date.now() }), {
    validator: (ask: unknown) => {
      const { workflowId } = accept(parseInput(askSchema, ask));
      if (isOfProject(projectId, workflowId)) return;
      throw invalidInput([{ field: 'workflowId', message: `must be of ${projectId}` }]);
    },
  });
  handleUpdates(loop, status);
}

function createPort(projectId: string, budget: Budget, isAskedToCancel: () => boolean): BudgetPort {
  const recordMetrics = createBudgetMetrics(projectId, budget.state);
  return {
    originalRunId: workflowInfo().originalExecutionRunId,
    runId: workflowInfo().runId,
    isContinued: isContinued(),
    nowMs: () => Date.now(),
    condition: async (isOver, ms) => {
      if (ms !== undefined) return condition(isOver, ms, { summary: 'until a slot or a pause ends' });
      await condition(isOver);
      return true;
    },
    allAnswered: () => condition(allHandlersFinished),
    signal: signalFollowUp,
    listRecentSends: (query) =>
      listRecentSends.executeWithOptions({ summary: 'list earlier sends' }, [{ projectId, ...query }]),
    patched,
    isNextRunDue,
    mustNextRunBegin: () => workflowInfo().continueAsNewSuggested,
    show: () => {
      const nowMs = Date.now();
      const extent = { maxSends: SHOWN_SENDS, cancelRefused: isAskedToCancel() };
      const status = budgetStatus(projectId, budget.state, nowMs, extent);
      setCurrentDetails(toMarkdown((at) => describeBudget(status, at), nowMs));
      recordMetrics();
    },
  };
}

async function signalFollowUp({ workflowId, reply }: FollowUpSignal): Promise<boolean> {
  const followUp = getExternalWorkflowHandle(workflowId);
  try {
    if (reply) await followUp.signal(replySignal, reply);
    else await followUp.signal(wakeSignal);
    return true;
  } catch (error) {
    // No other failure shows that the follow-up has ended.
    return !(error instanceof Error && error.message.includes('not found'));
  }
}

function isOfProject(projectId: string, workflowId: string): boolean {
  return parseFollowUpWorkflowId(workflowId)?.projectId === projectId;
}
