import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  condition,
  currentUpdateInfo,
  getExternalWorkflowHandle,
  log,
  patched,
  setCurrentDetails,
  setHandler,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow';
import type { z } from 'zod';
import { describeBudget, SHOWN_LINES } from '../budget/details.js';
import {
  beginState,
  Budget,
  type BudgetState,
  type CarriedState,
  carryState,
  type Effects,
  limitChangeIssue,
  restoreState,
  takeOrder,
} from '../budget/index.js';
import { instantMsSchema } from '../contract/durations.js';
import {
  type BudgetStatus,
  budgetStatusQuery,
  type InputIssue,
  parseInput,
  pauseInputSchema,
  pauseUpdate,
  projectBudgetWorkflowId,
  resumeUpdate,
  setLimitInputSchema,
  setLimitUpdate,
} from '../contract/index.js';
import {
  acquireRequestsSchema,
  acquireUpdate,
  BUDGET_RESET,
  type BudgetWord,
  carriedStateQuery,
  type ProjectBudgetInput,
  projectBudgetInputSchema,
  readReport,
  reportSignal,
  stillThereSignal,
  wakeSignal,
} from '../contract/protocol.js';
import { Alarm } from './alarm.js';
import { BudgetReporter } from './budget-reporter.js';
import { invalidInput } from './failures.js';
import { continueAsNew, isContinued, isNextRunDue, STRANGE_STATE } from './this-run.js';

/**
 * Events after which a run continues as new in any case: under a steady load of asks and slots, a better moment may not
 * come for a long time. Handlers are idempotent by id, so this is safe. An update leaves at least two events, so a run
 * stays far below the 2,000 updates that the server allows.
 */
const EVENTS_TO_END_ANYWAY = 1_500;

/** A run that should end gets a workflow task this long after one that answered an update. */
const TASK_AFTER_UPDATE_MS = 100;

/** No run ends this shortly before a waiter is invited: nobody is answered until the next run has started. */
const QUIET_MS = 1_000;

/**
 * The budget of one project: the only place that decides who may send. It answers every ask at once, never completes, and
 * continues as new with its whole state. It refuses a cancel, because the whole project would stand still without it.
 *
 * @param input {@link ProjectBudgetInput}
 * @param carried state of the previous run
 * @throws ApplicationFailure `BudgetReset` if somebody reset it; the workers start it again with what it knew
 */
export async function projectBudget(input: unknown, carried?: CarriedState): Promise<never> {
  const parsed = parseBudgetInput(input, carried !== undefined && !isContinued());
  const run = new BudgetRun(new Budget(carried ? restoreState(carried) : firstState(parsed)));
  CancellationScope.current().cancelRequested.catch(() => run.refuseCancel());
  run.start();
  await CancellationScope.nonCancellable(() => run.untilRunOut());
  const { projectId, settings } = parsed;
  return continueAsNew<typeof projectBudget>({ projectId, settings }, carryState(run.budget.state));
}

/** @throws ApplicationFailure `InvalidInput` if the state to restore is not valid */
function firstState(input: ProjectBudgetInput): BudgetState {
  const begun = beginState(input, { startedAtMs: workflowInfo().startTime.getTime(), nowMs: Date.now() });
  if (!begun.ok) throw invalidInput(begun.issues);
  return begun.state;
}

/** Connects the rules to Temporal: messages in, signals and one timer out. */
class BudgetRun {
  readonly #events = new TaskEvents();
  readonly #reporter: BudgetReporter;
  readonly #alarm = new Alarm(
    'next slot or invitation',
    () => this.#carryOut(this.budget.tick(Date.now())),
    (event) => (event === 'started' ? this.#events.leave() : this.#events.hear()),
  );
  #cancelAskedAtMs: number | undefined;

  constructor(readonly budget: Budget) {
    this.#reporter = new BudgetReporter(budget);
  }

  start(): void {
    const { budget } = this;
    // Messages that arrived before the run are handled in the order in which their handlers are set. So the outcome of a
    // send comes before the end of its follow-up, and both before the next asks.
    setHandler(reportSignal, (report) => {
      this.#events.hear();
      this.#carryOut(budget.hear(Date.now(), validWords(report)));
    });
    setHandler(
      acquireUpdate,
      (requests, report) => {
        this.#refuseIfReset();
        this.#events.answerUpdate();
        const [answers, effects] = budget.acquireAll(Date.now(), requests, validWords(report));
        this.#carryOut(effects);
        return answers;
      },
      { validator: (...[requests]) => void checked(acquireRequestsSchema, requests) },
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
    this.#carryOut(budget.tick(Date.now()));
  }

  /**
   * Resolves when this run is to continue as new: when nobody is invited, no end of a send is awaited, and nobody will be
   * invited for a second. If a signal came while the run ends, the server would refuse the end (`UnhandledCommand`) and,
   * for a moment, all signals. Their callers repeat them after 1 to 2 s, and until then the slots of sends that ended stay
   * occupied. A run does not end in a task that answered an update, because the server may apply that update again on the
   * next run (temporal#6375), and the caller would get the second answer. If only updates arrive, no other task would ever
   * come, and in the end the server would refuse more of them. So a timer makes one.
   */
  async untilRunOut(): Promise<void> {
    await this.#untilDecided(isNextRunDue);
    const mayEnd = () =>
      (!this.#events.hasAnsweredUpdate && this.#isQuiet()) || workflowInfo().historyLength >= EVENTS_TO_END_ANYWAY;
    while (!mayEnd()) {
      if (this.#isQuiet()) await this.#untilDecided(mayEnd, TASK_AFTER_UPDATE_MS);
      else await this.#untilDecided(() => mayEnd() || this.#isQuiet());
    }
  }

  /**
   * Waits until `isDecided`, and then until every message of the task is answered. A replay may apply the messages of a
   * task that left no event together with those of the next one (see {@link #fixTime}), and conditions are checked after
   * each message. Without the second wait, a timer could start before the last answer in the live run, but after it in a
   * replay.
   */
  async #untilDecided(isDecided: () => boolean, timeoutMs?: number): Promise<void> {
    const isOver = () => isDecided() || wasReset();
    if (timeoutMs === undefined) await condition(isOver);
    else await condition(isOver, timeoutMs);
    await condition(allHandlersFinished);
    this.#refuseIfReset();
  }

  #isQuiet(): boolean {
    return this.#alarm.nextAtMs > Date.now() + QUIET_MS && this.budget.isQuiet(Date.now());
  }

  /** The run continues after a request to cancel it, and says why. */
  refuseCancel(): void {
    this.#cancelAskedAtMs = Date.now();
    this.#events.hear();
    this.#carryOut(this.budget.tick(Date.now()));
  }

  #refuseIfReset(): void {
    if (!wasReset()) return;
    const message =
      'Somebody reset this run, so it has forgotten what was sent since. It ends, and another run continues with the full state';
    throw ApplicationFailure.create({ type: BUDGET_RESET, message, nonRetryable: true });
  }

  /** Carries out an operator's order, once. */
  #operate(order: () => Effects): BudgetStatus {
    this.#refuseIfReset();
    this.#events.answerUpdate();
    const id = currentUpdateInfo()?.id;
    if (id === undefined || takeOrder(this.budget.state, id)) this.#carryOut(order());
    return this.budget.status(Date.now());
  }

  #carryOut({ wake, check, lookAgainAtMs, isTimeless = false }: Effects): void {
    for (const workflowId of wake) void this.#signal(workflowId, 'wake');
    for (const workflowId of check) void this.#signal(workflowId, 'stillThere');
    if (lookAgainAtMs !== undefined) this.#alarm.set(lookAgainAtMs);
    if (!isTimeless) this.#fixTime();
    // This runs after each event, so it makes no more of the status than it shows.
    const details = describeBudget(this.budget.status(Date.now(), { most: SHOWN_LINES }), Date.now());
    const refusal = this.#cancelAskedAtMs === undefined ? [] : [this.#cancelRefusal(this.#cancelAskedAtMs)];
    setCurrentDetails([...refusal, details].join('\n\n'));
    this.#reporter.report(Date.now());
  }

  /**
   * Makes a task whose decisions depend on the time leave an event, unless its time is fixed in the history already. A
   * worker that replays two tasks in a row without events may merge the second into the next one and deliver its messages
   * at that one's time (temporalio/sdk-rust#1146). The rules would then decide differently and contradict the history.
   */
  #fixTime(): void {
    if (this.#events.isTimeFixed) return;
    upsertMemo({ lastChangeAt: new Date(Date.now()).toISOString() });
    this.#events.leave();
  }

  #cancelRefusal(askedAtMs: number): string {
    const { projectId } = this.budget.state;
    const at = new Date(askedAtMs).toISOString().slice(0, 19);
    return (
      `**Was asked to cancel (${at}Z), but continues**: nobody else knows what was sent, and without it every follow-up ` +
      `of the project would stand still. To send nothing for a while: \`follow-up budget pause ${projectId}\``
    );
  }

  /** A signal that finds nobody means that the follow-up no longer runs. Any other failure means nothing. */
  async #signal(workflowId: string, what: 'wake' | 'stillThere'): Promise<void> {
    this.#events.leave();
    const signal = what === 'wake' ? wakeSignal : stillThereSignal;
    try {
      await CancellationScope.nonCancellable(() => getExternalWorkflowHandle(workflowId).signal(signal));
      this.#events.hear();
    } catch (error) {
      this.#events.hear();
      const isGone = error instanceof Error && error.message.includes('not found');
      if (isGone) this.#carryOut(this.budget.gone(Date.now(), workflowId));
    }
  }
}

/** Events between the starts of two consecutive tasks, besides those that the first left and the second heard. */
const EVENTS_BETWEEN_TASKS = 3;

/**
 * Counts the events that each workflow task heard and left, as far as they are known here. A task of which nothing is
 * known, such as one that refused an update, shows in the history length: it is longer than the known events explain.
 */
class TaskEvents {
  /** The latest task with known events: history length in it, events that it heard, events that it leaves. */
  #task = { length: 0, heard: 0, left: 0 };
  /** History length in that task, less what it heard, if it comes right after one that left an event. */
  #lengthAfterEvent: number | undefined;
  /** History length in the task that answered the latest update. */
  #answeredAtLength: number | undefined;

  hear(): void {
    this.#current().heard += 1;
  }

  leave(): void {
    this.#current().left += 1;
  }

  /** The current task accepts and completes an update, which leaves an event for each. */
  answerUpdate(): void {
    this.#answeredAtLength = workflowInfo().historyLength;
    this.#current().left += 2;
  }

  get hasAnsweredUpdate(): boolean {
    return this.#answeredAtLength === workflowInfo().historyLength;
  }

  /** Whether the current task leaves an event, or comes right after one that did. */
  get isTimeFixed(): boolean {
    const { length, heard, left } = this.#current();
    return left > 0 || length - heard === this.#lengthAfterEvent;
  }

  #current(): { length: number; heard: number; left: number } {
    const { historyLength } = workflowInfo();
    if (this.#task.length !== historyLength) {
      const { length, left } = this.#task;
      this.#lengthAfterEvent = left > 0 ? length + left + EVENTS_BETWEEN_TASKS : undefined;
      this.#task = { length: historyLength, heard: 0, left: 0 };
    }
    return this.#task;
  }
}

/**
 * Whether a reset started this run. `false` while it replays what happened before the reset. It has lost what it answered
 * since, so it must answer nothing more. The patch marker in its history makes later replays give the same result.
 */
function wasReset(): boolean {
  const { runId, originalExecutionRunId } = workflowInfo();
  return runId !== originalExecutionRunId && patched('ends-after-a-reset');
}

/** The time of a query. An idle workflow does not know the time, so the caller gives it. */
function askedAt(nowMs: unknown): number {
  const asked = instantMsSchema.safeParse(nowMs);
  return Math.max(Date.now(), asked.success ? asked.data : 0);
}

function parseBudgetInput(input: unknown, strangeState: boolean): ProjectBudgetInput {
  const parsed = parseInput(projectBudgetInputSchema, input);
  const issues: InputIssue[] = parsed.ok ? [] : [...parsed.issues];
  if (strangeState) issues.push(STRANGE_STATE);
  const { workflowId } = workflowInfo();
  if (parsed.ok && workflowId !== projectBudgetWorkflowId(parsed.value.projectId)) {
    const expected = projectBudgetWorkflowId(parsed.value.projectId);
    issues.push({ field: 'workflowId', message: `must be ${expected} (given ${JSON.stringify(workflowId)})` });
  }
  if (!parsed.ok || issues.length > 0) throw invalidInput(issues);
  return parsed.value;
}

/** A throw would fail the budget's task forever, so words that make no sense are left out. */
function validWords(report: unknown = []): BudgetWord[] {
  const { words, issues } = readReport(report);
  if (issues.length > 0) log.warn('Ignored invalid words', { issues });
  return words;
}

function checked<T>(schema: z.ZodType<T>, input: unknown): T {
  const parsed = parseInput(schema, input);
  if (!parsed.ok) throw invalidInput(parsed.issues);
  return parsed.value;
}
