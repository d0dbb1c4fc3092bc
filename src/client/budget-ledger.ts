import { setTimeout as delay } from 'node:timers/promises';
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { beginState, Budget, type BudgetState, type CarriedState, restoreState, takeOrder } from '../budget/index.js';
import {
  describeIssues,
  parseInput,
  pauseInputSchema,
  pauseUpdate,
  projectBudgetWorkflowId,
  resumeUpdate,
  setLimitInputSchema,
  setLimitUpdate,
} from '../contract/index.js';
import { TemporalUnreachableError } from './errors.js';
import { decodePayloads, type HistoryEvent, type Payloads, readHistory } from './history.js';
import { listWorkflows } from './list.js';
import { timestampMs } from './temporal-call.js';
import {
  type AcquireAnswer,
  type AcquireRequest,
  acquireUpdate,
  projectBudgetInputSchema,
  readReport,
  reportSignal,
} from '../contract/protocol.js';

/** `WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW` of Temporal's API. */
const RESET_CAUSE = 20;

/** `SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED_CAUSE_EXTERNAL_WORKFLOW_EXECUTION_NOT_FOUND` of Temporal's API. */
const NOT_FOUND_CAUSE = 1;

/** Temporal's list usually shows a run within a second. */
const LIST_ATTEMPTS = 10;
const LIST_AGAIN_MS = 500;

/** Thrown if a run's history does not tell what it knew. */
export class LedgerLostError extends Error {}

/** Thrown if Temporal's list of a workflow's runs lags behind for long. */
export class ListOutOfDateError extends TemporalUnreachableError {}

/**
 * The state of a budget's run, rebuilt from its history: its input, its answers, and what it was told. Needs no worker,
 * and works even if every task of the run fails. For a run that began with a reset: the state of the run that it
 * replaced, since the new history lacks the answers after the point of the reset.
 *
 * @throws LedgerLostError; ListOutOfDateError; errors of Temporal
 */
export async function readLedger(client: Client, projectId: string, runId: string): Promise<BudgetState> {
  const workflowId = projectBudgetWorkflowId(projectId);
  const events = await readHistory(client, workflowId, runId);
  const resetAt = events.findLastIndex(
    (event) => Number(event.workflowTaskFailedEventAttributes?.cause) === RESET_CAUSE,
  );
  const [started] = events;
  if (!started) throw new LedgerLostError('its history is empty');
  if (resetAt < 0) return new LedgerReader(client, await beginFrom(client, projectId, started)).read(events.slice(1));
  const replaced = await findReplacedRun(client, workflowId, runId);
  const state = await readLedger(client, projectId, replaced);
  return new LedgerReader(client, state).read(events.slice(resetAt + 1));
}

async function beginFrom(client: Client, projectId: string, started: HistoryEvent): Promise<BudgetState> {
  const payloads = started.workflowExecutionStartedEventAttributes?.input?.payloads;
  const [input, carried] = await decodePayloads(client, projectBudgetWorkflowId(projectId), payloads);
  // Only continue-as-new passes it, written by the budget itself.
  if (carried !== undefined && carried !== null) return restoreState(carried as CarriedState);
  const parsed = parseInput(projectBudgetInputSchema, input);
  if (!parsed.ok) throw new LedgerLostError(`it was started with an invalid input: ${describeIssues(parsed.issues)}`);
  const startedAtMs = timestampMs(started.eventTime);
  const begun = beginState(parsed.value, { startedAtMs, nowMs: startedAtMs });
  if (!begun.ok) throw new LedgerLostError(describeIssues(begun.issues));
  return begun.state;
}

/**
 * The run that was the budget's newest when a reset began `runId`. It may be later than the run that the reset went
 * back to.
 *
 * @throws ListOutOfDateError if Temporal does not list `runId` within some seconds
 */
async function findReplacedRun(client: Client, workflowId: string, runId: string): Promise<string> {
  const earlier = await listRunsBefore(client, workflowId, runId);
  const [newest] = earlier.sort((a, b) => b.startTime.getTime() - a.startTime.getTime());
  if (!newest) throw new LedgerLostError('it was reset, and Temporal no longer keeps the previous run');
  // The list may be a second old: a run that has continued as new since is not the newest.
  for (let current = newest.runId; ;) {
    const events = await readHistory(client, workflowId, current, 'close');
    const next = events.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId;
    if (!next || next === runId) return current;
    current = next;
  }
}

/**
 * The runs that began before `runId`, once Temporal lists `runId`. The list lags behind: before that, it may also lack
 * the run that `runId` replaced, with all the sends that it had granted.
 */
async function listRunsBefore(client: Client, workflowId: string, runId: string): Promise<WorkflowExecutionInfo[]> {
  for (let attempt = 1; attempt <= LIST_ATTEMPTS; attempt += 1) {
    if (attempt > 1) await delay(LIST_AGAIN_MS);
    const runs: WorkflowExecutionInfo[] = [];
    for await (const run of listWorkflows(client, `WorkflowId = '${workflowId}'`)) runs.push(run);
    const own = runs.find((run) => run.runId === runId);
    if (own) return runs.filter(({ startTime }) => startTime < own.startTime);
  }
  throw new ListOutOfDateError(undefined, `its list of the runs of ${workflowId} is out of date; try again`);
}

/** Applies the events of a history to a state, in order. */
class LedgerReader {
  readonly #client: Client;
  readonly #budget: Budget;
  readonly #workflowId: string;
  readonly #asked = new Map<string, { name: string; args: Payloads }>();
  readonly #admitted = new Map<string, { name: string; args: Payloads }>();

  constructor(client: Client, state: BudgetState) {
    this.#client = client;
    this.#budget = new Budget(state);
    this.#workflowId = projectBudgetWorkflowId(state.projectId);
  }

  async read(events: readonly HistoryEvent[]): Promise<BudgetState> {
    for (const event of events) await this.#enter(event, timestampMs(event.eventTime));
    return this.#budget.state;
  }

  async #enter(event: HistoryEvent, atMs: number): Promise<void> {
    const signal = event.workflowExecutionSignaledEventAttributes;
    if (signal?.signalName === reportSignal.name) {
      const [report] = await this.#decode(signal.input?.payloads);
      this.#budget.hear(atMs, readReport(report).words);
    }
    const unheard = event.signalExternalWorkflowExecutionFailedEventAttributes;
    if (unheard?.workflowExecution?.workflowId && Number(unheard.cause) === NOT_FOUND_CAUSE) {
      this.#budget.gone(atMs, unheard.workflowExecution.workflowId);
    }
    const admitted = event.workflowExecutionUpdateAdmittedEventAttributes?.request;
    if (admitted?.meta?.updateId) this.#admitted.set(admitted.meta.updateId, nameAndArgs(admitted.input));
    const accepted = event.workflowExecutionUpdateAcceptedEventAttributes;
    if (accepted) {
      const request = accepted.acceptedRequest?.input;
      const asked = request ? nameAndArgs(request) : this.#admitted.get(accepted.protocolInstanceId ?? '');
      if (asked) this.#asked.set(String(event.eventId), asked);
    }
    const completed = event.workflowExecutionUpdateCompletedEventAttributes;
    const asked = this.#asked.get(String(completed?.acceptedEventId));
    const answer = completed?.outcome?.success?.payloads;
    if (completed && asked && answer) {
      const [args, [answered]] = await Promise.all([this.#decode(asked.args), this.#decode(answer)]);
      if (asked.name === acquireUpdate.name) {
        const { words } = readReport(args[1]);
        this.#budget.enterAnswers(atMs, args[0] as AcquireRequest[], answered as AcquireAnswer[], words);
      } else if (takeOrder(this.#budget.state, completed.meta?.updateId ?? '')) {
        this.#carryOut(atMs, asked.name, args);
      }
    }
  }

  /** Carries out an order that was answered, so its input is valid. */
  #carryOut(atMs: number, name: string, [asked]: unknown[]): void {
    const budget = this.#budget;
    if (name === setLimitUpdate.name) {
      const { limit, window: windowMs, reserve } = setLimitInputSchema.parse(asked);
      budget.setLimit(atMs, { limit, windowMs, reserve });
    }
    if (name === pauseUpdate.name) {
      const { for: forMs, note } = pauseInputSchema.parse(asked ?? {});
      budget.pause(atMs, { forMs, note });
    }
    if (name === resumeUpdate.name) budget.resume(atMs);
  }

  #decode(payloads: Payloads): Promise<unknown[]> {
    return decodePayloads(this.#client, this.#workflowId, payloads);
  }
}

function nameAndArgs(input: { name?: string | null; args?: { payloads?: Payloads } | null } | null | undefined): {
  name: string;
  args: Payloads;
} {
  return { name: input?.name ?? '', args: input?.args?.payloads };
}
