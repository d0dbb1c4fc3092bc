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
import { describeBudget, SHOWN_LINES } from '../budget/details.js';
import {
  acquireRequestsSchema,
  acquireUpdate,
  BUDGET_RESET,
  budgetSlotsQuery,
  budgetStatusQuery,
  carriedStateQuery,
  instantMsSchema,
  parseInput,
  pauseInputSchema,
  pauseUpdate,
  projectBudgetInputSchema,
  projectBudgetWorkflowId,
  readReport,
  reportSignal,
  resumeUpdate,
  setLimitInputSchema,
  setLimitUpdate,
  stillThereSignal,
  wakeSignal,
  type BudgetStatus,
  type InputIssue,
  type ProjectBudgetInput,
} from '../contract/index.js';
import { BudgetReporter } from './budget-reporter.js';
import { invalidInput } from './failures.js';
import { isRunLong } from './run-length.js';

/**
 * Events after which a run continues as new in any case: where asks and slots come one upon the other, there may be no
 * better moment for long. Handlers are idempotent by id, so this is safe. An update leaves two events at least, so that
 * a run stays far from the 2,000 updates that the server allows it.
 */
const EVENTS_TO_END_ANYWAY = 1_500;

/** A run that should end gets a workflow task this long after one that answered an update. */
const TASK_AFTER_UPDATE_MS = 100;

/** No run ends so shortly before somebody is invited: until the next one has begun, nobody is answered. */
const QUIET_MS = 1_000;

/**
 * Events between the start of one workflow task and that of the next, beside what the first left and the next heard.
 */
const EVENTS_BETWEEN_TASKS = 3;

/**
 * The budget of one project, the budget: the only place that decides who may send. It answers every ask at once, never
 * completes, and continues as new with its whole state. It refuses a cancel: without it the whole project would stand.
 *
 * @param input {@link ProjectBudgetInput}
 * @param carried state of the run before
 * @throws ApplicationFailure `BudgetReset` where somebody reset it; the workers start it again with what it knew
 */
export async function projectBudget(input: unknown, carried?: CarriedState): Promise<never> {
  const isContinued = workflowInfo().continuedFromExecutionRunId !== undefined;
  const parsed = parseBudgetInput(input, carried !== undefined && !isContinued);
  const run = new BudgetRun(new Budget(carried ? restoreState(carried) : firstState(parsed)));
  CancellationScope.current().cancelRequested.catch(() => run.refuseCancel());
  run.start();
  await CancellationScope.nonCancellable(() => run.untilRunOut());
  const { projectId, settings } = parsed;
  return continueAsNew<typeof projectBudget>({ projectId, settings }, carryState(run.budget.state));
}

/** @throws ApplicationFailure `InvalidInput` for a state that is none */
function firstState(input: ProjectBudgetInput): BudgetState {
  const begun = beginState(input, { startedAtMs: workflowInfo().startTime.getTime(), nowMs: Date.now() });
  if (!begun.ok) throw invalidInput(begun.issues);
  return begun.state;
}

/** Wires the rules to Temporal: messages in, signals and one timer out. */
class BudgetRun {
  #timerAtMs: number | undefined;
  /** History length in the task that answered the latest update. */
  #answeredAtLength: number | undefined;
  /** The latest task that did anything: history length in it, events that it heard of so far, events that it leaves. */
  #task = { length: 0, heard: 0, left: 0 };
  /** History length in that task, less what it heard, where it comes right after one that left an event. */
  #lengthAfterEvent: number | undefined;
  #cancelAskedAtMs: number | undefined;

  readonly #reporter: BudgetReporter;

  constructor(readonly budget: Budget) {
    this.#reporter = new BudgetReporter(budget);
  }

  start(): void {
    const { budget } = this;
    // What came before a run began is handled as its handlers are set: how a send ended before its follow-up's end, and
    // both before what is asked next.
    setHandler(reportSignal, (report) => {
      const { words, issues } = readReport(report);
      // A throw would fail the budget's task for good.
      if (issues.length > 0) log.warn('Ignored reports that are not valid', { issues });
      this.#noteEvents({ heard: 1 });
      this.#carryOut(budget.hear(Date.now(), words));
    });
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
    setHandler(budgetStatusQuery, (nowMs, about) => budget.status(askedAt(nowMs), { about }));
    setHandler(budgetSlotsQuery, (nowMs) => budget.slots(askedAt(nowMs)));
    this.#carryOut(budget.tick(Date.now()));
  }

  /**
   * Until this run is to continue as new: when nobody is invited, and nobody will be for a second. Not in a task that
   * answered an update, either: such an update may be applied again on the next run (temporal#6375), and its caller
   * would get the second answer. Where nothing comes but updates, no other task would ever come, and in the end the
   * server would take no more of them: so a timer makes one.
   */
  async untilRunOut(): Promise<void> {
    await condition(() => isRunLong() || wasReset());
    this.#refuseIfReset();
    const hasAnswered = () => this.#answeredAtLength === workflowInfo().historyLength;
    const mayEnd = () => (!hasAnswered() && this.#isQuiet()) || workflowInfo().historyLength >= EVENTS_TO_END_ANYWAY;
    while (!mayEnd()) {
      if (this.#isQuiet()) await condition(() => mayEnd() || wasReset(), TASK_AFTER_UPDATE_MS);
      else await condition(() => mayEnd() || this.#isQuiet() || wasReset());
      this.#refuseIfReset();
    }
  }

  #isQuiet(): boolean {
    const nextAtMs = this.#timerAtMs ?? Infinity;
    return nextAtMs > Date.now() + QUIET_MS && this.budget.isQuiet(Date.now());
  }

  /** A cancel is asked of every workflow; this one goes on, and says why. */
  refuseCancel(): void {
    this.#cancelAskedAtMs = Date.now();
    this.#noteEvents({ heard: 1 });
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
    // It is accepted and completed.
    this.#noteEvents({ left: 2 });
  }

  /** Carries an order out, once. */
  #operate(order: () => Effects): BudgetStatus {
    this.#refuseIfReset();
    this.#noteUpdate();
    const id = currentUpdateInfo()?.id;
    if (id === undefined || takeOrder(this.budget.state, id)) this.#carryOut(order());
    return this.budget.status(Date.now());
  }

  #carryOut({ wake, check, lookAgainAtMs, isTimeless = false }: Effects): void {
    for (const workflowId of wake) void this.#signal(workflowId, 'wake');
    for (const workflowId of check) void this.#signal(workflowId, 'stillThere');
    if (lookAgainAtMs !== undefined) void this.#lookAgain(lookAgainAtMs);
    if (!isTimeless) this.#leaveEvent();
    // After each event: no more is made than is shown.
    const details = describeBudget(this.budget.status(Date.now(), { most: SHOWN_LINES }), Date.now());
    setCurrentDetails(this.#cancelAskedAtMs === undefined ? details : `${this.#cancelRefusal()}\n\n${details}`);
    this.#reporter.report(Date.now());
  }

  /**
   * Has a task that went by the time leave an event, where neither it nor the task before leaves one, so that its time is
   * known for good. A worker that replays two tasks in a row without any may take the second for a part of the one after
   * it, and hand over what came with it at that one's time (temporalio/sdk-rust#1146): the rules would decide anew, and
   * contradict the history.
   */
  #leaveEvent(): void {
    this.#noteEvents({});
    const { length, heard, left } = this.#task;
    if (left > 0 || length - heard === this.#lengthAfterEvent) return;
    upsertMemo({ lastChangeAt: new Date(Date.now()).toISOString() });
    this.#noteEvents({ left: 1 });
  }

  /**
   * Counts the events of each task that are known here. A task of which nothing is known, such as one that refused an
   * update, shows in the length of the history: it is longer than what is known makes it.
   */
  #noteEvents({ heard = 0, left = 0 }: { heard?: number; left?: number }): void {
    const { historyLength } = workflowInfo();
    if (this.#task.length !== historyLength) {
      const before = this.#task;
      this.#lengthAfterEvent = before.left > 0 ? before.length + before.left + EVENTS_BETWEEN_TASKS : undefined;
      this.#task = { length: historyLength, heard: 0, left: 0 };
    }
    this.#task.heard += heard;
    this.#task.left += left;
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
    this.#noteEvents({ left: 1 });
    const signal = what === 'wake' ? wakeSignal : stillThereSignal;
    try {
      await CancellationScope.nonCancellable(() => getExternalWorkflowHandle(workflowId).signal(signal));
      this.#noteEvents({ heard: 1 });
    } catch (error) {
      this.#noteEvents({ heard: 1 });
      const isGone = error instanceof Error && error.message.includes('not found');
      if (isGone) this.#carryOut(this.budget.gone(Date.now(), workflowId));
    }
  }

  /** One timer at a time: an earlier instant starts another, a later one waits for the one that runs. */
  async #lookAgain(atMs: number): Promise<void> {
    if (this.#timerAtMs !== undefined && this.#timerAtMs <= atMs) return;
    this.#timerAtMs = atMs;
    this.#noteEvents({ left: 1 });
    await CancellationScope.nonCancellable(() =>
      sleep(Math.max(1, atMs - Date.now()), { summary: 'next slot or invitation' }),
    );
    this.#noteEvents({ heard: 1 });
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

/** An idle workflow does not know how late it is: the asker says. */
function askedAt(nowMs: unknown): number {
  const asked = instantMsSchema.safeParse(nowMs);
  return Math.max(Date.now(), asked.success ? asked.data : 0);
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

function checked<T>(schema: z.ZodType<T>, input: unknown): T {
  const parsed = parseInput(schema, input);
  if (!parsed.ok) throw invalidInput(parsed.issues);
  return parsed.value;
}
