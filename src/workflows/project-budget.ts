import type { z } from 'zod';
import {
  ApplicationFailure,
  CancellationScope,
  condition,
  continueAsNew,
  currentUpdateInfo,
  getExternalWorkflowHandle,
  log,
  patched,
  setCurrentDetails,
  setHandler,
  sleep,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow';
import {
  beginState,
  Budget,
  carryState,
  limitChangeIssue,
  restoreState,
  takeOrder,
  type BudgetState,
  type CarriedState,
  type Effects,
} from '../budget/index.js';
import { describeBudget } from '../budget/details.js';
import {
  acquireRequestsSchema,
  acquireUpdate,
  BUDGET_RESET,
  budgetStatusQuery,
  carriedStateQuery,
  finishSignal,
  instantMsSchema,
  keyReadMessageSchema,
  keyReadSignal,
  leaveMessageSchema,
  parseInput,
  pauseInputSchema,
  pauseUpdate,
  projectBudgetInputSchema,
  projectBudgetWorkflowId,
  resumeUpdate,
  setLimitInputSchema,
  setLimitUpdate,
  settleMessageSchema,
  settleSignal,
  stillThereSignal,
  wakeSignal,
  withdrawSignal,
  type BudgetStatus,
  type InputIssue,
  type ProjectBudgetInput,
} from '../contract/index.js';
import { BudgetReporter } from './budget-reporter.js';
import { invalidInput } from './failures.js';
import { isRunLong } from './run-length.js';

/**
 * Events after which a run continues as new even in a task that answered an update: where asks come one upon the other,
 * no task may be without one for long. Handlers are idempotent by id, so this is safe. An update leaves two events at
 * least, so that a run stays far from the 2,000 updates that the server allows it.
 */
const EVENTS_TO_END_ANYWAY = 1_500;

/** A run that is to end has a workflow task that long after one that answered an update. */
const TASK_AFTER_UPDATE_MS = 100;

/**
 * The budget of one project, the gate: the only place that decides who may send. It answers every ask at once, never
 * completes, and continues as new with its whole state. It refuses a cancel: without it the whole project would stand.
 *
 * @param input {@link ProjectBudgetInput}
 * @param carried state of the run before
 * @throws ApplicationFailure `BudgetReset` where somebody reset it; the workers start it again with what it knew
 */
export async function projectBudget(input: unknown, carried?: CarriedState): Promise<never> {
  const isContinued = workflowInfo().continuedFromExecutionRunId !== undefined;
  const parsed = parseBudgetInput(input, carried !== undefined && !isContinued);
  const gate = new Gate(new Budget(carried ? restoreState(carried) : firstState(parsed)));
  CancellationScope.current().cancelRequested.catch(() => gate.refuseCancel());
  gate.start();
  await CancellationScope.nonCancellable(() => gate.untilRunOut());
  const { projectId, settings } = parsed;
  return continueAsNew<typeof projectBudget>({ projectId, settings }, carryState(gate.budget.state));
}

/** @throws ApplicationFailure `InvalidInput` for a state that is none */
function firstState(input: ProjectBudgetInput): BudgetState {
  const begun = beginState(input, { startedAtMs: workflowInfo().startTime.getTime(), nowMs: Date.now() });
  if (!begun.ok) throw invalidInput(begun.issues);
  return begun.state;
}

/** Wires the rules to Temporal: messages in, signals and one timer out. */
class Gate {
  #timerAtMs: number | undefined;
  /** History length in the task that answered the latest update. */
  #answeredAtLength: number | undefined;
  /** History length in the latest task that is known to leave an event. */
  #eventAtLength: number | undefined;
  #cancelAskedAtMs: number | undefined;

  readonly #reporter: BudgetReporter;

  constructor(readonly budget: Budget) {
    this.#reporter = new BudgetReporter(budget);
  }

  start(): void {
    const { budget } = this;
    // What came before a run began is handled as its handlers are set: how a send ended before its follow-up's end, and
    // both before what is asked next.
    setHandler(
      settleSignal,
      ifValid(settleMessageSchema, (message) => this.#carryOut(budget.settle(Date.now(), message))),
    );
    const leave = ifValid(leaveMessageSchema, (message) => this.#carryOut(budget.leave(Date.now(), message)));
    setHandler(finishSignal, leave);
    setHandler(withdrawSignal, leave);
    setHandler(
      keyReadSignal,
      ifValid(keyReadMessageSchema, (message) => this.#carryOut(budget.keyRead(Date.now(), message))),
    );
    setHandler(
      acquireUpdate,
      (requests) => {
        this.#refuseIfReset();
        this.#noteUpdate();
        const [answers, effects] = budget.acquireAll(Date.now(), requests);
        this.#carryOut(effects);
        return answers;
      },
      { validator: (requests) => void checked(acquireRequestsSchema, requests) },
    );
    setHandler(
      setLimitUpdate,
      (input) => {
        const { limit, window: windowMs, reserve } = checked(setLimitInputSchema, input);
        return this.#operate(() => budget.setLimit(Date.now(), { limit, windowMs, reserve }));
      },
      {
        validator: (input) => {
          const { limit, reserve } = checked(setLimitInputSchema, input);
          const issue = limitChangeIssue(budget.state, { limit, reserve });
          if (issue) throw invalidInput([issue]);
        },
      },
    );
    setHandler(
      pauseUpdate,
      (input) => {
        const { for: forMs, note } = checked(pauseInputSchema, input ?? {});
        return this.#operate(() => budget.pause(Date.now(), { forMs, note }));
      },
      { validator: (input) => void checked(pauseInputSchema, input ?? {}) },
    );
    setHandler(resumeUpdate, () => this.#operate(() => budget.resume(Date.now())));
    setHandler(carriedStateQuery, () => carryState(budget.state));
    setHandler(budgetStatusQuery, (nowMs) => {
      const asked = instantMsSchema.safeParse(nowMs);
      return budget.status(Math.max(Date.now(), asked.success ? asked.data : 0));
    });
    this.#carryOut(budget.tick(Date.now()));
  }

  /**
   * Until this run is to continue as new. Not in a task that answered an update, if it can be avoided: such an update may
   * be applied again on the next run (temporal#6375), and its caller would get the second answer. Where nothing comes
   * but updates, no other task would ever come, and in the end the server would take no more of them: so a timer makes
   * one.
   */
  async untilRunOut(): Promise<void> {
    await condition(() => isRunLong() || wasReset());
    this.#refuseIfReset();
    const hasAnswered = () => this.#answeredAtLength === workflowInfo().historyLength;
    const mayEnd = () => !hasAnswered() || workflowInfo().historyLength >= EVENTS_TO_END_ANYWAY;
    while (!mayEnd()) {
      await condition(() => mayEnd() || wasReset(), TASK_AFTER_UPDATE_MS);
      this.#refuseIfReset();
    }
  }

  /** A cancel is asked of every workflow; this one goes on, and says why. */
  refuseCancel(): void {
    this.#cancelAskedAtMs = Date.now();
    this.#carryOut(this.budget.tick(Date.now()));
  }

  #refuseIfReset(): void {
    if (!wasReset()) return;
    const message =
      'Somebody reset this run: it has forgotten what was sent since. It ends, and goes on as another run';
    throw ApplicationFailure.create({ type: BUDGET_RESET, message, nonRetryable: true });
  }

  #noteUpdate(): void {
    this.#answeredAtLength = workflowInfo().historyLength;
    this.#eventAtLength = this.#answeredAtLength;
  }

  /** Carries an order out, once. */
  #operate(order: () => Effects): BudgetStatus {
    this.#refuseIfReset();
    this.#noteUpdate();
    const id = currentUpdateInfo()?.id;
    if (id === undefined || takeOrder(this.budget.state, id)) this.#carryOut(order());
    return this.budget.status(Date.now());
  }

  #carryOut({ wake, check, lookAgainAtMs }: Effects): void {
    for (const workflowId of wake) void this.#signal(workflowId, 'wake');
    for (const workflowId of check) void this.#signal(workflowId, 'stillThere');
    if (lookAgainAtMs !== undefined) void this.#lookAgain(lookAgainAtMs);
    this.#leaveEvent();
    const details = describeBudget(this.budget.status(Date.now()), Date.now());
    setCurrentDetails(this.#cancelAskedAtMs === undefined ? details : `${this.#cancelRefusal()}\n\n${details}`);
    this.#reporter.report(Date.now());
  }

  /**
   * Has a task that went by the time leave an event, so that its time is known for good. A worker that replays a task
   * without any may take it for a part of the next one, and hand over what came with it at that one's time
   * (temporalio/sdk-rust#1146): the rules would decide anew, and contradict the history. Updates leave events themselves.
   */
  #leaveEvent(): void {
    const { historyLength } = workflowInfo();
    if (this.#eventAtLength === historyLength) return;
    this.#eventAtLength = historyLength;
    upsertMemo({ lastChangeAt: new Date(Date.now()).toISOString() });
  }

  #cancelRefusal(): string {
    const { projectId } = this.budget.state;
    const at = new Date(this.#cancelAskedAtMs ?? 0).toISOString().slice(0, 19);
    return (
      `**Was asked to cancel (${at}Z), and goes on**: nobody else knows what was sent, and without it every follow-up ` +
      `of the project would stand still. To send nothing for a while: \`follow-up budget pause ${projectId}\``
    );
  }

  /** A signal that finds nobody says that the follow-up runs no more. One that fails otherwise says nothing. */
  async #signal(workflowId: string, what: 'wake' | 'stillThere'): Promise<void> {
    this.#eventAtLength = workflowInfo().historyLength;
    const signal = what === 'wake' ? wakeSignal : stillThereSignal;
    try {
      await CancellationScope.nonCancellable(() => getExternalWorkflowHandle(workflowId).signal(signal));
    } catch (error) {
      const isGone = error instanceof Error && error.message.includes('not found');
      if (isGone) this.#carryOut(this.budget.gone(Date.now(), workflowId));
    }
  }

  /** One timer at a time: an earlier instant starts another, a later one waits for the one that runs. */
  async #lookAgain(atMs: number): Promise<void> {
    if (this.#timerAtMs !== undefined && this.#timerAtMs <= atMs) return;
    this.#timerAtMs = atMs;
    this.#eventAtLength = workflowInfo().historyLength;
    await CancellationScope.nonCancellable(() =>
      sleep(Math.max(1, atMs - Date.now()), { summary: 'next slot or invitation' }),
    );
    if (this.#timerAtMs !== atMs) return;
    this.#timerAtMs = undefined;
    this.#carryOut(this.budget.tick(Date.now()));
  }
}

/**
 * Whether this run was begun by a reset, from here on: not while it replays what went before. What it answered since is
 * lost to it, so it must not answer anything more. The mark in its history makes the answer the same for ever.
 */
function wasReset(): boolean {
  const { runId, originalExecutionRunId } = workflowInfo();
  return runId !== originalExecutionRunId && patched('ends-after-a-reset');
}

function parseBudgetInput(input: unknown, strangeState: boolean): ProjectBudgetInput {
  const parsed = parseInput(projectBudgetInputSchema, input);
  const issues: InputIssue[] = parsed.ok ? [] : [...parsed.issues];
  if (strangeState) issues.push({ field: 'carried', message: 'only continue-as-new may give a second argument' });
  const { workflowId } = workflowInfo();
  if (parsed.ok && workflowId !== projectBudgetWorkflowId(parsed.value.projectId)) {
    const expected = projectBudgetWorkflowId(parsed.value.projectId);
    issues.push({ field: 'workflowId', message: `must be ${expected} (given ${JSON.stringify(workflowId)})` });
  }
  if (!parsed.ok || issues.length > 0) throw invalidInput(issues);
  return parsed.value;
}

/** A signal cannot be refused: one that makes no sense is passed over, for a throw would fail the gate's task for good. */
function ifValid<T>(schema: z.ZodType<T>, handle: (message: T) => void): (message: T) => void {
  return (message) => {
    const parsed = parseInput(schema, message);
    if (parsed.ok) handle(parsed.value);
    else log.warn('A signal that makes no sense is passed over', { issues: parsed.issues });
  };
}

function checked<T>(schema: z.ZodType<T>, input: unknown): T {
  const parsed = parseInput(schema, input);
  if (!parsed.ok) throw invalidInput(parsed.issues);
  return parsed.value;
}
