import type { Client } from '@temporalio/client';
import { type UpdateDefinition, WorkflowNotFoundError } from '@temporalio/common';
import type { z } from 'zod';
import { defined } from '../contract/defined.js';
import {
  type BudgetSend,
  type BudgetStatus,
  budgetStatusQuery,
  parseInput,
  parseProjectBudgetWorkflowId,
  type PauseInput,
  pauseInputSchema,
  pauseUpdate,
  projectBudgetWorkflowId,
  resumeUpdate,
  type SetLimitInput,
  setLimitInputSchema,
  setLimitUpdate,
  WorkflowType,
} from '../contract/index.js';
import { restoreBudget, type RestoredBudget, type RestoreOptions } from './budget-restore.js';
import { type BudgetTarget, updateBudget } from './budget-update.js';
import { InvalidInputError, WorkerUnavailableError } from './errors.js';
import { listWorkflows } from './list.js';
import { describeIfKnown } from '../temporal/lookups.js';
import { toExecutionStatus } from './summary.js';
import { callTemporal } from './temporal-call.js';
import { queryWorkflow, readTrouble, type WorkflowTrouble } from './trouble.js';
import { type BudgetExecutionState, type BudgetUpdate, watchBudget, type WatchOptions } from './watches.js';

const QUERY_TIMEOUT_MS = 5_000;

/** The send budget of one project. Cheap to make: nothing is requested before a method is called. */
export class BudgetHandle {
  readonly #client: Client;
  readonly #target: BudgetTarget;
  readonly projectId: string;
  /** `project-budget/{projectId}` */
  readonly workflowId: string;

  constructor(target: BudgetTarget) {
    this.#client = target.client;
    this.#target = target;
    this.projectId = target.projectId;
    this.workflowId = projectBudgetWorkflowId(target.projectId);
  }

  /**
   * Whether the budget's workflow exists and runs. Needs no worker.
   *
   * @throws TemporalUnreachableError
   */
  async state(): Promise<BudgetExecutionState> {
    const budget = await callTemporal(this.#client, () => describeIfKnown(this.#client, this.workflowId));
    if (!budget) return 'none';
    return toExecutionStatus(budget.status.name) === 'running' ? 'running' : 'stopped';
  }

  /**
   * What keeps the budget from answering, and how to fix it: it is stopped, paused in Temporal, fails at its tasks, or
   * has no worker. `undefined` if nothing does, and before the project's first follow-up. Needs no worker.
   *
   * @throws TemporalUnreachableError
   */
  async trouble(): Promise<WorkflowTrouble | undefined> {
    return readTrouble(this.#client, this.workflowId);
  }

  /**
   * Slots, queue and last sends; `undefined` before the project's first follow-up. For a stopped budget, its last known
   * state. Needs a running worker and a correct local clock, by which slots end after the budget's last event.
   *
   * @throws WorkerUnavailableError, TemporalUnreachableError
   */
  async status(): Promise<BudgetStatus | undefined> {
    try {
      return await queryWorkflow(this.#client, this.workflowId, QUERY_TIMEOUT_MS, budgetStatusQuery, Date.now());
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return undefined;
      throw error;
    }
  }

  /**
   * Polls the budget and yields each change. Continues while no worker runs, while Temporal is away, and when
   * the budget stops; ends when `signal` is aborted.
   *
   * @throws TemporalUnreachableError at the first look, or after `reconnectTimeoutMs` without Temporal
   */
  watch(options: WatchOptions = {}): AsyncGenerator<BudgetUpdate, void, undefined> {
    return watchBudget(this, options);
  }

  /**
   * The sends of the last window, at least the last 100 and at most the last 1,000, newest first; none before the
   * project's first follow-up. Needs a running worker.
   *
   * @throws WorkerUnavailableError, TemporalUnreachableError
   */
  async audit(): Promise<BudgetSend[]> {
    return (await this.status())?.lastSends ?? [];
  }

  /**
   * Changes limit, window or reserve at once; missing fields keep their values. If more slots are taken than a lower
   * limit allows, nothing is sent until enough of them have ended. A budget that does not exist yet is started with the
   * defaults and this change.
   *
   * @throws InvalidInputError naming every bad field; BudgetStoppedError, WorkerUnavailableError,
   * TemporalUnreachableError
   */
  async setLimit(change: SetLimitInput): Promise<BudgetStatus> {
    this.#check(setLimitInputSchema, change);
    return this.#update(setLimitUpdate, [change]);
  }

  /**
   * Stops sending until it is resumed, or for a time. Sends under way finish, and the queue is kept. A budget
   * that does not exist yet is started with the defaults, and paused.
   *
   * @throws InvalidInputError naming every bad field; BudgetStoppedError, WorkerUnavailableError,
   * TemporalUnreachableError
   */
  async pause(pause: PauseInput = {}): Promise<BudgetStatus> {
    this.#check(pauseInputSchema, pause);
    return this.#update(pauseUpdate, [pause]);
  }

  /**
   * Ends a pause. If the service's answers caused it, the next follow-up tries at once whether
   * the service accepts messages again.
   *
   * @throws BudgetStoppedError, WorkerUnavailableError, TemporalUnreachableError
   */
  async resume(): Promise<BudgetStatus> {
    return this.#update(resumeUpdate, []);
  }

  /**
   * Starts a budget again that is stopped, or whose workflow tasks fail. It counts for itself what was sent before it,
   * and wakes the follow-ups that wait. It keeps its limit, window and reserve, but no pause. Of two simultaneous restores one starts the budget; the other throws
   * BudgetRunningError.
   *
   * @throws BudgetRunningError, BudgetPausedError, BudgetNotFoundError; InvalidInputError, TemporalUnreachableError
   */
  async restore(options: RestoreOptions = {}): Promise<RestoredBudget> {
    return restoreBudget(this.#target, options);
  }

  #check<T>(schema: z.ZodType<T>, input: unknown): void {
    const parsed = parseInput(schema, input);
    if (!parsed.ok) throw new InvalidInputError(parsed.issues);
  }

  async #update<Args extends unknown[]>(
    update: UpdateDefinition<BudgetStatus, Args>,
    args: Args,
  ): Promise<BudgetStatus> {
    return updateBudget(this.#target, update, args, async () => (await this.state()) === 'running');
  }
}

/** One running budget of the namespace. */
export interface ListedBudget {
  projectId: string;
  workflowId: string;
  /** Missing if the budget does not answer. */
  status?: BudgetStatus;
  /** Why there is no status. */
  statusUnavailable?: string;
}

/** Budgets that are queried at once: each query costs a worker some work. */
const ASKED_AT_ONCE = 10;

/** See `FollowUpClient.budgets`. */
export async function* listBudgets(
  client: Client,
  budgetOf: (projectId: string) => BudgetHandle,
): AsyncGenerator<ListedBudget> {
  const query = `WorkflowType = '${WorkflowType.projectBudget}' AND ExecutionStatus = 'Running'`;
  let asked: Promise<ListedBudget>[] = [];
  for await (const { workflowId } of listWorkflows(client, query)) {
    const projectId = parseProjectBudgetWorkflowId(workflowId);
    // Anybody may start a workflow of that type under another id; it fails on its own.
    if (projectId === undefined) continue;
    asked.push(look(budgetOf(projectId)));
    if (asked.length < ASKED_AT_ONCE) continue;
    yield* await Promise.all(asked);
    asked = [];
  }
  yield* await Promise.all(asked);
}

async function look(budget: BudgetHandle): Promise<ListedBudget> {
  const { projectId, workflowId } = budget;
  try {
    const status = await budget.status();
    return { projectId, workflowId, ...defined({ status }) };
  } catch (error) {
    if (!(error instanceof WorkerUnavailableError)) throw error;
    return { projectId, workflowId, statusUnavailable: error.reason };
  }
}
