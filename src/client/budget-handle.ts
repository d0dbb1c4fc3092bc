import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Client,
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowExecutionDescription,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { ApplicationFailure, type UpdateDefinition, WorkflowNotFoundError } from '@temporalio/common';
import { z } from 'zod';
import { defined } from '../common/index.js';
import {
  type BudgetSend,
  type BudgetStatus,
  budgetStatusQuery,
  FailureType,
  type PauseInput,
  pauseInputSchema,
  pauseUpdate,
  projectBudgetWorkflowId,
  resumeUpdate,
  type SetLimitInput,
  setLimitInputSchema,
  setLimitUpdate,
  type TakeInput,
  takeInputSchema,
  type TakeReply,
  takeUpdate,
  WorkflowType,
} from '../contract/index.js';
import {
  type BudgetSettings,
  budgetStartOptions,
  firstBudgetStart,
  type ProjectBudgetInput,
  projectBudgetInputSchema,
} from '../protocol/index.js';
import { describeIfKnown, ifFound, readRunStart } from '../temporal/lookups.js';
import { queryWorkflow, resultOf, sendUpdate } from './calls.js';
import { InvalidInputError, RefusedError, TemporalUnreachableError } from './client-errors.js';
import { readTrouble, type WorkflowTrouble } from './health.js';
import { issuesIn } from './result.js';
import { callTemporal, type ExecutionStatus, toExecutionStatus } from './temporal.js';
import { watchChanges, type WatchOptions } from './watch-changes.js';

/** Default settings of a new budget, with the service's own limit of 100 messages per hour. */
export const DEFAULT_BUDGET_SETTINGS: BudgetSettings = {
  limit: 100,
  windowMs: 3_600_000,
  reserve: 0,
  marginMs: 2_000,
};

const QUERY_TIMEOUT_MS = 5_000;
const COUNTING_TIMEOUT_MS = 10_000;
const COUNTING_INTERVAL_MS = 250;

export interface BudgetTarget {
  client: Client;
  projectId: string;
  taskQueue: string;
  settings: BudgetSettings;
}

/** Whether a budget's workflow exists and runs: `none` before the project's first follow-up. */
export type BudgetExecutionState = 'none' | 'running' | 'stopped';

/** A change of a watched budget. */
export interface BudgetUpdate {
  state: BudgetExecutionState;
  /** Why it does not run; missing if nothing needs it. */
  trouble?: WorkflowTrouble;
  /** The last known status; missing before the project's first follow-up. */
  status?: BudgetStatus;
  /** Why `status` is out of date. */
  statusUnavailable?: string;
}

/** Options of `BudgetHandle.restore`. */
export interface RestoreOptions {
  /**
   * Whether to count all free slots as used, so that nothing is sent for one window: for an operator who does not trust
   * Temporal's list of follow-ups.
   *
   * @default false
   */
  assumeFull?: boolean;
}

/** A restored budget. Times are ISO 8601 in UTC. */
export interface RestoredBudget {
  projectId: string;
  workflowId: string;
  /** The new run. It first counts earlier sends. */
  runId: string;
  /** The previous run's, if a worker can still read them, otherwise those of its start. */
  settings: BudgetSettings;
  /** The previous run and its end. */
  stopped: { runId: string; status: ExecutionStatus; at: string };
}

/**
 * A handle of a project's budget, which makes no request until a method is called. Every method throws a
 * TemporalUnreachableError if Temporal is away.
 */
export class BudgetHandle {
  readonly #target: BudgetTarget;
  readonly projectId: string;
  /** `project-budget/{projectId}` */
  readonly workflowId: string;

  constructor(target: BudgetTarget) {
    this.#target = target;
    this.projectId = target.projectId;
    this.workflowId = projectBudgetWorkflowId(target.projectId);
  }

  /** Whether the budget's workflow exists and runs. Needs no worker. */
  async state(): Promise<BudgetExecutionState> {
    const budget = await this.#describe();
    return budget ? (isRunning(budget) ? 'running' : 'stopped') : 'none';
  }

  /**
   * Why the budget does not answer, and how to fix it: it is stopped, paused in Temporal, its workflow tasks fail, or
   * no worker polls its task queue; or it was deleted while follow-ups wait. `undefined` if nothing is wrong, or nothing
   * needs it. Needs no worker.
   */
  async trouble(): Promise<WorkflowTrouble | undefined> {
    return readTrouble(this.#target.client, this.workflowId);
  }

  /**
   * Slots, queue and last sends; `undefined` before the project's first follow-up. For a stopped budget, its last known
   * state. Needs a running worker, and a correct local clock for slots that end after the budget's last event.
   *
   * @throws WorkerUnavailableError
   */
  async status(): Promise<BudgetStatus | undefined> {
    const { client } = this.#target;
    return ifFound(() => queryWorkflow(client, this.workflowId, QUERY_TIMEOUT_MS, budgetStatusQuery, Date.now()));
  }

  /**
   * Both {@link state} and {@link status}, or why there is no status.
   *
   * @param last the previous result, whose status is reused while no worker answers and while the budget is stopped
   */
  async look(last?: BudgetUpdate): Promise<BudgetUpdate> {
    const state = await this.state();
    // A stopped budget does not change, and each query of it replays its history.
    if (state === 'stopped' && last?.state === 'stopped' && last.statusUnavailable === undefined) return last;
    const ofState = { state, ...(state !== 'running' && defined({ trouble: await this.trouble() })) };
    if (state === 'none') return ofState;
    const { result = last?.status, silence } = await resultOf(() => this.status());
    return { ...ofState, ...defined({ status: result, statusUnavailable: silence }) };
  }

  /**
   * Polls the budget and yields each change. Continues while no worker runs, while Temporal is away, and while the
   * budget is stopped; ends when `signal` is aborted.
   *
   * @throws TemporalUnreachableError at the first poll, or after `reconnectTimeoutMs` without Temporal
   */
  watch(options: WatchOptions = {}): AsyncGenerator<BudgetUpdate, void, undefined> {
    return watchChanges(options, {
      look: (last) => this.look(last),
      outdated: (last, reason) => ({ ...last, statusUnavailable: reason }),
      isLast: () => false,
    });
  }

  /**
   * The sends of the last window, at least the last 100 and at most the last 1,000, newest first; none before the
   * project's first follow-up. Needs a running worker.
   *
   * @throws WorkerUnavailableError
   */
  async audit(): Promise<BudgetSend[]> {
    return (await this.status())?.lastSends ?? [];
  }

  /**
   * Changes limit, window or reserve at once; missing fields keep their values. If more slots are used than a lower
   * limit allows, nothing is sent until enough have expired. A budget that does not exist yet starts with the defaults
   * and this change.
   *
   * @throws InvalidInputError naming every invalid field; RefusedError if it is stopped, WorkerUnavailableError
   */
  async setLimit(change: SetLimitInput): Promise<BudgetStatus> {
    InvalidInputError.check(setLimitInputSchema, change);
    return this.#update(setLimitUpdate, [change]);
  }

  /**
   * Stops sending until resumed, or for a time. Sends in progress finish, and the queue is kept. A budget that does not
   * exist yet starts paused.
   *
   * @throws as {@link setLimit}
   */
  async pause(pause: PauseInput = {}): Promise<BudgetStatus> {
    InvalidInputError.check(pauseInputSchema, pause);
    return this.#update(pauseUpdate, [pause]);
  }

  /**
   * Ends a pause. If the service's refusals caused it, the next follow-up tries at once.
   *
   * @throws as {@link setLimit}
   */
  async resume(): Promise<BudgetStatus> {
    return this.#update(resumeUpdate, []);
  }

  /**
   * Counts slots as used for messages that other software sends: all of `count`, or none. Follow-ups in line keep their
   * slots. A key takes slots only once, but a restored or reset budget has forgotten it. A new budget may first count
   * earlier sends; this waits up to 10 s for that.
   *
   * @throws as {@link setLimit}
   */
  async take(take: TakeInput): Promise<TakeReply> {
    const input = InvalidInputError.check(takeInputSchema, take);
    for (const endMs = Date.now() + COUNTING_TIMEOUT_MS; ;) {
      const reply = await this.#update(takeUpdate, [input]);
      if (reply.taken || reply.waitReason !== 'counting' || Date.now() >= endMs) return reply;
      await sleep(COUNTING_INTERVAL_MS);
    }
  }

  /**
   * Restarts a budget that is stopped, or whose workflow tasks fail. It counts earlier sends itself, and wakes waiting
   * follow-ups. It keeps its limit, window and reserve, but no pause. Of two simultaneous restores, one is refused.
   *
   * @throws InvalidInputError; RefusedError if it runs, is paused in Temporal, or never existed
   */
  async restore(options: RestoreOptions = {}): Promise<RestoredBudget> {
    const { assumeFull } = InvalidInputError.check(z.strictObject({ assumeFull: z.boolean().optional() }), options);
    const { client } = this.#target;
    const { projectId, workflowId } = this;
    const { runId, status, closeTime = new Date() } = await this.#stopFailing();
    const settings = await this.#lastSettings(runId);
    const input: ProjectBudgetInput = { projectId, settings, ...(assumeFull && { assumeFull: true }) };
    try {
      const { firstExecutionRunId } = await callTemporal(client, () =>
        client.workflow.start(WorkflowType.projectBudget, {
          ...budgetStartOptions(this.#target),
          args: [input],
          workflowIdReusePolicy: 'ALLOW_DUPLICATE',
          workflowIdConflictPolicy: 'FAIL',
        }),
      );
      const stopped = { runId, status: toExecutionStatus(status.name), at: closeTime.toISOString() };
      return { projectId, workflowId, runId: firstExecutionRunId, settings, stopped };
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      throw new RefusedError('BudgetRunning', projectId, { cause: error });
    }
  }

  async #describe(): Promise<WorkflowExecutionDescription | undefined> {
    const { client } = this.#target;
    return callTemporal(client, () => describeIfKnown(client, this.workflowId));
  }

  /** Returns the budget's last run, closed. Terminates a run whose workflow tasks fail. */
  async #stopFailing(): Promise<WorkflowExecutionDescription> {
    const { projectId } = this;
    const last = await this.#describe();
    if (!last) throw new RefusedError('BudgetNotFound', projectId);
    if (!isRunning(last)) return last;
    const trouble = await this.trouble();
    if (trouble?.kind === 'paused') {
      const why = `${trouble.what}; nothing is lost; to continue, run: ${trouble.fix}`;
      throw new RefusedError('BudgetPaused', projectId, { why });
    }
    if (trouble?.kind !== 'failing') throw new RefusedError('BudgetRunning', projectId);
    const { client } = this.#target;
    try {
      const run = client.workflow.getHandle(this.workflowId, last.runId);
      await callTemporal(client, () => run.terminate('its tasks failed: follow-up budget restore'));
    } catch (error) {
      // It has continued, or another restore came first.
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
    const stopped = await this.#describe();
    if (!stopped || isRunning(stopped)) throw new RefusedError('BudgetRunning', projectId);
    return stopped;
  }

  /** The latest settings: an operator may have changed them. */
  async #lastSettings(runId: string): Promise<BudgetSettings> {
    const settings = await this.#startSettings(runId);
    // It does not answer if no worker runs, or none can read its past.
    const { result: status } = await resultOf(() => this.status());
    if (!status) return settings;
    const { limit, windowMs, reserve } = status;
    return { ...settings, limit, windowMs, reserve };
  }

  /** The settings with which a run started or continued. */
  async #startSettings(runId: string): Promise<BudgetSettings> {
    const { client, settings } = this.#target;
    try {
      const [input, carried] = await callTemporal(client, () => readRunStart(client, this.workflowId, runId));
      const ofRun = z.object({ settings: projectBudgetInputSchema.shape.settings });
      return ofRun.safeParse(carried).data?.settings ?? ofRun.parse(input).settings;
    } catch (error) {
      if (error instanceof TemporalUnreachableError) throw error;
      // Its history is deleted, or needs another data converter.
      return settings;
    }
  }

  /** Sends an update to the budget, which starts if it never existed. */
  async #update<Result, Args extends unknown[]>(update: UpdateDefinition<Result, Args>, args: Args): Promise<Result> {
    const { client, projectId } = this.#target;
    const [start, updateId] = [firstBudgetStart(this.#target), randomUUID()];
    const send = () => {
      const startWorkflowOperation = new WithStartWorkflowOperation(WorkflowType.projectBudget, start);
      return client.workflow.executeUpdateWithStart(update, { args, updateId, startWorkflowOperation });
    };
    try {
      return await sendUpdate(client, this, send);
    } catch (error) {
      const isStopped = error instanceof WorkflowExecutionAlreadyStartedError;
      if (isStopped || (error instanceof WorkflowNotFoundError && (await this.state()) !== 'running')) {
        throw new RefusedError('BudgetStopped', projectId, { cause: error });
      }
      throw error instanceof WorkflowUpdateFailedError ? toUpdateError(projectId, error) : error;
    }
  }
}

function isRunning({ status }: WorkflowExecutionDescription): boolean {
  return toExecutionStatus(status.name) === 'running';
}

/** The error of an update that only the budget can check, or that it refuses. */
function toUpdateError(projectId: string, error: WorkflowUpdateFailedError): Error {
  const { cause } = error;
  if (cause instanceof ApplicationFailure && cause.type === FailureType.InvalidInput) {
    const issues = issuesIn(cause) ?? [];
    return new InvalidInputError(issues.length > 0 ? issues : [{ field: '', message: cause.message }]);
  }
  return new RefusedError('BudgetUpdateRejected', projectId, { why: cause?.message ?? error.message, cause: error });
}
