import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  condition,
  getExternalWorkflowHandle,
  makeContinueAsNewFunc,
  metricMeter,
  patched,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { z } from 'zod';
import { instantMsSchema } from '../contract/durations.js';
import {
  FailureType,
  type InputIssue,
  type Parsed,
  parseFollowUpWorkflowId,
  parseInput,
  pauseInputSchema,
  projectBudgetWorkflowId,
  setLimitInputSchema,
} from '../contract/index.js';
import { invalidInput } from '../workflows/failures.js';
import type { Activities } from '../activities/index.js';
import { Budget, type Message } from '../budget/budget.js';
import { BudgetLoop, type BudgetPort } from '../budget/loop.js';
import { type BudgetState, newState, trim } from '../budget/state.js';
import { budgetStatus, describeBudget } from '../budget/status.js';
import {
  type BudgetStatus,
  budgetStatusQuery,
  pauseUpdate,
  refusals,
  resumeUpdate,
  setLimitUpdate,
} from '../contract/budget-messages.js';
import {
  type ProjectBudgetInput,
  projectBudgetInputSchema,
  answerSignal,
  askSchema,
  askUpdate,
  budgetEventSchema,
  wakeSignal,
  tellSignal,
} from '../contract/protocol.js';

/** A worker that takes a budget over replays its run first, so runs are short. */
const EVENTS_A_RUN = 1_000;

const { listRecentSends } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '20s',
  retry: { initialInterval: '5s', maximumInterval: '5m' },
});

/**
 * The budget of one project: the only place that decides who may send. It never completes, and continues as new with its
 * state. {@link BudgetLoop} has the steps. A cancel does not reach it: follow-ups depend on it.
 *
 * @param carried the state of the run before; only continue-as-new may give it
 * @throws ApplicationFailure `InvalidInput`
 */
export async function projectBudget(input: ProjectBudgetInput, carried?: BudgetState): Promise<never> {
  const parsed = parseInput(projectBudgetInputSchema, input);
  if (!parsed.ok) throw invalidInput(parsed.issues);
  const { projectId, settings, assumeFull = false } = parsed.value;
  const { startTime, continuedFromExecutionRunId, workflowId } = workflowInfo();
  const ownId = projectBudgetWorkflowId(projectId);
  if (workflowId !== ownId)
    throw invalidInput([{ field: 'workflowId', message: `must be ${ownId} (given ${workflowId})` }]);
  // Anyone can start a budget with a state of their own, so only a run that went before may hand one over.
  const state = continuedFromExecutionRunId === undefined ? undefined : carried;
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
  listen(projectId, loop);
  await CancellationScope.nonCancellable(() => loop.run(assumeFull && state === undefined));
  trim(budget.state);
  const continueAsNew = makeContinueAsNewFunc<typeof projectBudget>({ initialVersioningBehavior: 'AUTO_UPGRADE' });
  return continueAsNew({ projectId, settings }, budget.state);
}

/** Handlers only change the state: see {@link BudgetLoop}. */
function listen(projectId: string, loop: BudgetLoop): void {
  const { budget } = loop;
  const status = (nowMs: number, about?: string): BudgetStatus => budgetStatus(projectId, budget, nowMs, about);
  setHandler(budgetStatusQuery, (nowMs?: unknown, about?: unknown) => {
    const now = instantMsSchema.safeParse(nowMs).data ?? Date.now();
    return status(now, typeof about === 'string' ? about : undefined);
  });
  setHandler(tellSignal, (event: unknown) => {
    const parsed = parseInput(budgetEventSchema, event);
    if (parsed.ok && isOfProject(projectId, parsed.value.workflowId)) loop.hear(parsed.value);
  });
  setHandler(askUpdate, (ask) => loop.ask(ask), {
    validator: (ask: unknown) => {
      const { workflowId } = accept(parseInput(askSchema, ask));
      if (!isOfProject(projectId, workflowId)) refuse([{ field: 'workflowId', message: `must be of ${projectId}` }]);
    },
  });
  setHandler(
    setLimitUpdate,
    (input) => {
      const { limit, window: windowMs, reserve } = parsedBy(setLimitInputSchema, input);
      return loop.change((nowMs) => {
        budget.setLimit(nowMs, { limit, windowMs, reserve });
        return status(nowMs);
      });
    },
    {
      validator: (input: unknown) => {
        const { settings, maxLimit } = budget.state;
        const { limit = settings.limit, reserve = settings.reserve } = parsedBy(setLimitInputSchema, input);
        const rule = `must be at most ${maxLimit}, FOLLOW_UP_BUDGET_MAX_LIMIT of the workers (given ${limit})`;
        if (limit > maxLimit) refuse([{ field: 'limit', message: rule }]);
        if (reserve > 0 && reserve >= limit) {
          refuse([{ field: 'reserve', message: `must be below limit (limit ${limit}, reserve ${reserve})` }]);
        }
      },
    },
  );
  setHandler(
    pauseUpdate,
    (input) => {
      const { for: forMs, note } = parsedBy(pauseInputSchema, input);
      return loop.change((nowMs) => {
        budget.pause(nowMs, {
          ...(forMs !== undefined && { untilMs: nowMs + forMs }),
          ...(note !== undefined && { note }),
        });
        return status(nowMs);
      });
    },
    { validator: (input: unknown) => void parsedBy(pauseInputSchema, input) },
  );
  setHandler(resumeUpdate, () =>
    loop.change((nowMs) => {
      budget.resume(nowMs);
      return status(nowMs);
    }),
  );
}

function createPort(projectId: string, budget: Budget, isAskedToCancel: () => boolean): BudgetPort {
  const recordMetrics = createMetrics(projectId, budget);
  return {
    originalRunId: workflowInfo().originalExecutionRunId,
    nowMs: () => Date.now(),
    condition: async (isOver, ms) => {
      if (ms !== undefined) return condition(isOver, ms, { summary: 'until a slot or a pause ends' });
      await condition(isOver);
      return true;
    },
    allAnswered: () => condition(allHandlersFinished),
    send,
    listRecentSends: (query) =>
      listRecentSends.executeWithOptions({ summary: 'list what was sent before' }, [{ projectId, ...query }]),
    // The marker makes replays give the same answer as the first time. It names the run, because a later reset keeps it.
    wasResetSince: (runId) => workflowInfo().runId !== runId && patched(`counts-after-${runId}`),
    // With Worker Versioning, the next run begins on the current version.
    isLong: () => workflowInfo().historyLength >= EVENTS_A_RUN || workflowInfo().targetWorkerDeploymentVersionChanged,
    show: () => {
      const details = describeBudget(budgetStatus(projectId, budget, Date.now()), Date.now());
      setCurrentDetails(isAskedToCancel() ? `${cancelRefusal(projectId)}\n\n${details}` : details);
      recordMetrics();
    },
  };
}

function cancelRefusal(projectId: string): string {
  return `**Was asked to cancel, but continues**: follow-ups wait for it. To send nothing: \`follow-up budget pause ${projectId}\``;
}

async function send({ workflowId, answer }: Message): Promise<boolean> {
  const followUp = getExternalWorkflowHandle(workflowId);
  try {
    if (answer) await followUp.signal(answerSignal, answer);
    else await followUp.signal(wakeSignal);
    return true;
  } catch (error) {
    // Any other failure says nothing about the follow-up.
    return !(error instanceof Error && error.message.includes('not found'));
  }
}

function isOfProject(projectId: string, workflowId: string): boolean {
  return parseFollowUpWorkflowId(workflowId)?.projectId === projectId;
}

function parsedBy<T>(schema: z.ZodType<T>, input: unknown): T {
  return accept(parseInput(schema, input ?? {}));
}

function accept<T>(parsed: Parsed<T>): T {
  return parsed.ok ? parsed.value : refuse(parsed.issues);
}

function refuse(issues: InputIssue[]): never {
  const { message } = invalidInput(issues);
  throw ApplicationFailure.create({
    type: FailureType.InvalidInput,
    message,
    nonRetryable: true,
    details: [{ issues }],
  });
}

/** Metrics of a budget. One that moves to another worker leaves its last values on the old one. */
function createMetrics(project: string, budget: Budget): () => void {
  let counted = { ...budget.state.counts };
  const name = (suffix: string) => `follow_up_budget_${suffix}`;
  const count = (suffix: string, help: string, by: number) =>
    metricMeter.createCounter(name(suffix), undefined, help).add(by, { project });
  const gauge = (suffix: string, help: string, value: number, tags: Record<string, string> = {}) =>
    metricMeter.createGauge(name(suffix), 'float', undefined, help).set(value, { project, ...tags });
  return () => {
    const { settings, maxLimit, waiters, grants, servicePause, operatorPause, counts } = budget.state;
    count('grants', 'Messages that were let through', counts.grants - counted.grants);
    count('limited', 'Messages that the service answered with 429', counts.limited - counted.limited);
    counted = { ...counts };
    gauge('limit', 'Messages in a window', Math.min(settings.limit, maxLimit));
    gauge('window_seconds', 'Length of the rolling window', settings.windowMs / 1_000);
    gauge('used', 'Slots that are occupied', budget.slotEnds().length);
    gauge('unsettled', 'Messages under way', grants.length);
    gauge('waiting', 'Follow-ups in the queue', waiters.length);
    gauge('waiting_for_job', 'Follow-ups in the queue whose job is busy', waiters.length - budget.line().length);
    for (const reason of ['operator', ...refusals] as const) {
      const isOperators = operatorPause !== undefined && (operatorPause.untilMs ?? Infinity) > Date.now();
      const isPaused = reason === 'operator' ? isOperators : servicePause?.reason === reason;
      gauge('paused', 'Whether nothing, or but one message at a time, is let through', isPaused ? 1 : 0, { reason });
    }
    const help = 'When this worker last ran the budget, by the clock of Temporal';
    gauge('reported_timestamp_seconds', help, Date.now() / 1_000);
  };
}
