import {
  condition,
  continueAsNew,
  getExternalWorkflowHandle,
  setCurrentDetails,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import { Budget, newState, restoreState, carryState, type CarriedState, type Effects } from '../budget/index.js';
import { describeBudget } from '../budget/details.js';
import {
  acquireUpdate,
  budgetStatusQuery,
  finishSignal,
  parseInput,
  projectBudgetInputSchema,
  projectBudgetWorkflowId,
  settleSignal,
  stillThereSignal,
  wakeSignal,
  withdrawSignal,
  type InputIssue,
  type ProjectBudgetInput,
} from '../contract/index.js';
import { invalidInput } from './follow-up/endings.js';

/**
 * Updates that a run takes before it continues as new even in a task that answered one. The server allows 2,000 a run
 * and suggests continue-as-new at 4,096 events, about 800 updates; handlers are idempotent by id, so this is safe.
 */
const MOST_UPDATES_A_RUN = 1_600;

/**
 * The budget of one project, the gate: the only place that decides who may send. It answers every ask at once, never
 * completes, and continues as new with its whole state.
 *
 * @param input {@link ProjectBudgetInput}
 * @param carried state of the run before
 */
export async function projectBudget(input: unknown, carried?: CarriedState): Promise<never> {
  const { projectId, settings } = parseBudgetInput(input);
  const gate = new Gate(new Budget(carried ? restoreState(carried) : newState(projectId, settings)));
  gate.start();
  await condition(() => gate.mayContinueAsNew());
  return continueAsNew<typeof projectBudget>(input, carryState(gate.budget.state));
}

/** Wires the rules to Temporal: messages in, signals and one timer out. */
class Gate {
  #timerAtMs: number | undefined;
  #updates = 0;
  /** History length in the task that answered the latest update. */
  #answeredAtLength: number | undefined;

  constructor(readonly budget: Budget) {}

  start(): void {
    const { budget } = this;
    setHandler(acquireUpdate, (request) => {
      this.#updates += 1;
      this.#answeredAtLength = workflowInfo().historyLength;
      const [answer, effects] = budget.acquire(Date.now(), request);
      this.#carryOut(effects);
      return answer;
    });
    setHandler(settleSignal, (message) => this.#carryOut(budget.settle(Date.now(), message)));
    setHandler(finishSignal, (message) => this.#carryOut(budget.leave(Date.now(), message)));
    setHandler(withdrawSignal, (message) => this.#carryOut(budget.leave(Date.now(), message)));
    setHandler(budgetStatusQuery, () => budget.status(Date.now()));
    this.#carryOut(budget.tick(Date.now()));
  }

  /**
   * Not in a task that answered an update: such an update may be applied again on the next run (temporal#6375), and
   * its caller would get the second answer.
   */
  mayContinueAsNew(): boolean {
    const { continueAsNewSuggested, historyLength } = workflowInfo();
    if (!continueAsNewSuggested && this.#updates < MOST_UPDATES_A_RUN) return false;
    return this.#answeredAtLength !== historyLength || this.#updates >= MOST_UPDATES_A_RUN;
  }

  #carryOut({ wake, check, lookAgainAtMs }: Effects): void {
    for (const workflowId of wake) void this.#signal(workflowId, 'wake');
    for (const workflowId of check) void this.#signal(workflowId, 'stillThere');
    if (lookAgainAtMs !== undefined) void this.#lookAgain(lookAgainAtMs);
    setCurrentDetails(describeBudget(this.budget.status(Date.now()), Date.now()));
  }

  /** A signal that fails says that the follow-up runs no more. */
  async #signal(workflowId: string, what: 'wake' | 'stillThere'): Promise<void> {
    try {
      await getExternalWorkflowHandle(workflowId).signal(what === 'wake' ? wakeSignal : stillThereSignal);
    } catch {
      this.#carryOut(this.budget.gone(Date.now(), workflowId));
    }
  }

  /** One timer at a time: an earlier instant starts another, a later one waits for the one that runs. */
  async #lookAgain(atMs: number): Promise<void> {
    if (this.#timerAtMs !== undefined && this.#timerAtMs <= atMs) return;
    this.#timerAtMs = atMs;
    await sleep(Math.max(1, atMs - Date.now()), { summary: 'next slot or invitation' });
    if (this.#timerAtMs !== atMs) return;
    this.#timerAtMs = undefined;
    this.#carryOut(this.budget.tick(Date.now()));
  }
}

function parseBudgetInput(input: unknown): ProjectBudgetInput {
  const parsed = parseInput(projectBudgetInputSchema, input);
  const issues: InputIssue[] = parsed.ok ? [] : [...parsed.issues];
  const { workflowId } = workflowInfo();
  if (parsed.ok && workflowId !== projectBudgetWorkflowId(parsed.value.projectId)) {
    const expected = projectBudgetWorkflowId(parsed.value.projectId);
    issues.push({ field: 'workflowId', message: `must be ${expected} (given ${JSON.stringify(workflowId)})` });
  }
  if (!parsed.ok || issues.length > 0) throw invalidInput(issues);
  return parsed.value;
}
