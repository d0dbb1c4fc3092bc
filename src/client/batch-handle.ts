import { type Client, WorkflowFailedError } from '@temporalio/client';
import { type QueryDefinition, WorkflowNotFoundError } from '@temporalio/common';
import { defined } from '../contract/defined.js';
import {
  type BatchItem,
  batchItemsQuery,
  type BatchStatus,
  batchStatusQuery,
  type BudgetStatus,
  type FollowUpBatchResult,
  followUpBatchWorkflowId,
  type FollowUpState,
} from '../contract/index.js';
import type { StartBatchInput, StartBatchOptions } from './batch-plan.js';
import { planRetry, type RetryOptions, type RetryPlan } from './batch-retry.js';
import { BatchEndedError, BatchNotFoundError, BatchRunningError, FollowUpClientError } from './errors.js';
import { listFollowUps, listQuery, take } from './list.js';
import { BudgetAnswers, readPlaces } from './live-progress.js';
import { awaitResult, type ResultOptions, toBatchError, toBatchResult } from './result.js';
import { type ExecutionStatus, toExecutionStatus } from './summary.js';
import { callTemporal, fewAtATime, toConnectionError } from './temporal-call.js';
import { findTroublesOfBatch, queryWorkflow, type WorkflowTrouble } from './trouble.js';
import { pauseBetweenLooks } from './watches.js';
import type { BudgetSettings } from '../contract/protocol.js';

/** A batch of thousands may have to replay its history before it answers. */
const QUERY_TIMEOUT_MS = 10_000;
const PAGE_SIZE = 500;
/** How long an expected end is reused. It grows with the number of items to read. */
const EXPECT_EVERY_MS = 3_000;
const EXPECT_EVERY_MS_AN_ITEM = 10;
/** Most follow-ups whose place is looked up. */
const MOST_ASKED_ABOUT = 500;

/** A batch as Temporal itself sees it. Instants are ISO 8601 in UTC. */
export interface BatchExecution {
  status: ExecutionStatus;
  startedAt: string;
  endedAt?: string;
}

/** The follow-up of a batch that will be sent next. */
export interface NextSend {
  workflowId: string;
  /** Its position in the queue of its project. */
  position: number;
  /** When the budget expects to send it. ISO 8601 in UTC. */
  expectedAt?: string;
}

/** The state of a batch, with what its budgets and Temporal know by now. */
export interface LiveBatchStatus extends BatchStatus {
  /** Missing if none waits for its slot, or none is among the first in its project's queue. */
  nextSend?: NextSend;
  /**
   * When the batch is expected to end: what is left of each project, divided by its limit. Missing if a project is
   * paused until somebody resumes it, or its budget does not answer. ISO 8601 in UTC.
   */
  expectedEndAt?: string;
  /** Projects whose budget does not answer although follow-ups of the batch wait for it, with the reason. */
  budgetsSilent?: Record<string, string>;
}

/** How to start batches, and where. */
export interface BatchTarget {
  client: Client;
  taskQueue: string;
  /** Settings of a budget that does not exist yet. */
  budgetSettings: BudgetSettings;
  start: (input: StartBatchInput, options?: StartBatchOptions) => Promise<StartedBatch>;
}

/** Options of {@link BatchHandle.items}. */
export interface ItemsOptions {
  /** Time between two looks. @default 2_000 */
  intervalMs?: number;
  /** Ends the iteration without an error. */
  signal?: AbortSignal;
}

/** One batch. Cheap to make: nothing is requested before a method is called. */
export class BatchHandle {
  readonly #target: BatchTarget;
  #expected: { endMs: number; againAtMs: number } | undefined;
  /** `follow-up-batch/{batchId}` */
  readonly workflowId: string;

  constructor(
    target: BatchTarget,
    readonly batchId: string,
  ) {
    this.#target = target;
    this.workflowId = followUpBatchWorkflowId({ batchId });
  }

  /**
   * Counts of the items, and when the batch is expected to end, updated every few seconds; `cutOff` if it ended
   * without a result. Needs a running worker, even for ended batches.
   *
   * @throws BatchNotFoundError, WorkerUnavailableError, TemporalUnreachableError
   */
  async status(): Promise<LiveBatchStatus> {
    const status = await this.#query(this.workflowId, batchStatusQuery, []);
    if (status.ended) return status;
    const execution = (await this.describe()).status;
    if (execution === 'running') {
      const budgets = new BudgetAnswers(this.#target.client);
      const live = { ...status, ...(await this.#expectEnd(status, budgets)) };
      if (status.open === 0) return live;
      const waitingForBudget = await this.#count('waiting-for-budget');
      return { ...live, waitingForBudget, ...(waitingForBudget !== 0 && (await this.#readNextSend(budgets))) };
    }
    // Its own counts are from its end: only Temporal knows how many follow-ups still run.
    return { ...status, cutOff: execution, stillRunning: await this.#count() };
  }

  /**
   * Every item in its present state, in the order of the batch, fetched page by page. Needs a running worker.
   *
   * @throws BatchNotFoundError, WorkerUnavailableError, TemporalUnreachableError
   */
  async *list(): AsyncGenerator<BatchItem, void, undefined> {
    const { workflowId } = this;
    let offset = 0;
    let asked = workflowId;
    for (;;) {
      const { items, total, elsewhere } = await this.#query(asked, batchItemsQuery, [{ offset, limit: PAGE_SIZE }]);
      yield* items;
      offset += items.length;
      // A part knows only the items up to its own last one.
      if (asked === workflowId && offset >= total) return;
      // A part without further items hands back to the batch.
      const next = elsewhere?.workflowId ?? workflowId;
      if (items.length === 0 && next === asked) return;
      asked = next;
    }
  }

  /**
   * Items as they end, each once, in that order to within `intervalMs`; ends with the batch, or when `signal` is
   * aborted. Needs a running worker.
   *
   * @throws BatchNotFoundError, WorkerUnavailableError, TemporalUnreachableError
   */
  async *items({ intervalMs = 2_000, signal }: ItemsOptions = {}): AsyncGenerator<BatchItem, void, undefined> {
    const told = new Set<number>();
    while (!signal?.aborted) {
      const { completed, archived, failed, errors, ended } = await this.#query(this.workflowId, batchStatusQuery, []);
      if (completed + archived + failed + errors > told.size) {
        for await (const item of this.list()) {
          if ((item.status === undefined && item.error === undefined) || told.has(item.index)) continue;
          told.add(item.index);
          yield item;
        }
      }
      if (ended || (await this.describe()).status !== 'running') return;
      await pauseBetweenLooks(intervalMs, signal);
    }
  }

  /**
   * Waits for the end, without a time limit. Every item has an outcome then, also in a cancelled batch.
   *
   * @throws BatchFailedError, BatchNotFoundError, UnexpectedOutcomeError, TemporalUnreachableError
   */
  async result(options: ResultOptions = {}): Promise<FollowUpBatchResult> {
    const { workflowId } = this;
    const { client } = this.#target;
    try {
      return toBatchResult(workflowId, await awaitResult(client, workflowId, () => this.describe(), options));
    } catch (error) {
      if (error instanceof WorkflowFailedError) throw toBatchError(this.batchId, error);
      throw this.#translate(error);
    }
  }

  /**
   * Asks the batch to end: nothing more is sent. {@link result} gives the outcome of each item; agent jobs
   * that received their message continue.
   *
   * @throws BatchEndedError, BatchNotFoundError, TemporalUnreachableError
   */
  async cancel(): Promise<void> {
    // Temporal accepts a request to cancel an ended workflow like any other.
    if ((await this.describe()).status !== 'running') throw new BatchEndedError(this.batchId);
    await this.#call(() => this.#handle.cancel());
  }

  /**
   * Sends items of an ended batch again, with new keys, as a batch of its own whose id is derived from this one's. A
   * repeated retry finds that batch and sends nothing. Items whose delivery is unknown may be delivered a second time:
   * {@link planRetry} counts them.
   *
   * @throws what {@link planRetry} and `startBatch` throw
   */
  async retry({ only, ...options }: RetryOptions & StartBatchOptions = {}): Promise<StartedBatch> {
    const { input } = await this.planRetry({ only });
    return this.#target.start(input, options);
  }

  /**
   * What {@link retry} would send. Sends nothing.
   *
   * @throws BatchRunningError, NothingToRetryError, BatchNotFoundError; InvalidInputError if the id would be too long;
   * UnexpectedOutcomeError if Temporal no longer keeps the items; WorkerUnavailableError
   */
  async planRetry({ only }: RetryOptions = {}): Promise<RetryPlan> {
    if ((await this.describe()).status === 'running') throw new BatchRunningError(this.batchId);
    return planRetry(this.#target.client, this, { only });
  }

  /**
   * What blocks the batch or one of its parts, and how to fix it: paused in Temporal, failing, or without a
   * worker. Needs no worker.
   *
   * @throws TemporalUnreachableError
   */
  async troubles(): Promise<WorkflowTrouble[]> {
    return findTroublesOfBatch(this.#target.client, this.batchId);
  }

  /**
   * The batch as Temporal sees it. Needs no worker.
   *
   * @throws BatchNotFoundError, TemporalUnreachableError
   */
  async describe(): Promise<BatchExecution> {
    const { status, startTime, closeTime } = await this.#call(() => this.#handle.describe());
    return {
      status: toExecutionStatus(status.name),
      startedAt: startTime.toISOString(),
      ...defined({ endedAt: closeTime?.toISOString() }),
    };
  }

  get #handle() {
    return this.#target.client.workflow.getHandle(this.workflowId);
  }

  /** Counting what is left reads all items: with many, it is done less often than the status is read. */
  async #expectEnd({ total }: BatchStatus, budgets: BudgetAnswers): Promise<{ expectedEndAt?: string }> {
    const nowMs = Date.now();
    if (nowMs >= (this.#expected?.againAtMs ?? 0)) {
      const againAtMs = nowMs + EXPECT_EVERY_MS + total * EXPECT_EVERY_MS_AN_ITEM;
      this.#expected = { againAtMs, endMs: await this.#divideByLimits(budgets, nowMs) };
    }
    const { endMs = Infinity } = this.#expected ?? {};
    return endMs < Infinity && endMs > nowMs ? { expectedEndAt: new Date(endMs).toISOString() } : {};
  }

  /** When each project has sent what is left of it, at its limit; `Infinity` if nobody can tell. */
  async #divideByLimits(budgets: BudgetAnswers, nowMs: number): Promise<number> {
    const left = new Map<string, number>();
    try {
      for await (const { projectId, status, error } of this.list()) {
        if (status === undefined && error === undefined) left.set(projectId, (left.get(projectId) ?? 0) + 1);
      }
      const ends = await fewAtATime([...left], async ([projectId, count]) => {
        const { status, isMissing } = await budgets.of(projectId);
        const known: Partial<BudgetStatus> = isMissing ? this.#target.budgetSettings : (status ?? {});
        const { limit: allowed = 0, windowMs = 0, learnedLimit = Infinity, paused } = known;
        const limit = Math.min(allowed, learnedLimit);
        if (limit === 0) return Infinity;
        const fromMs = paused ? Date.parse(paused.until ?? '') || Infinity : nowMs;
        return Math.max(nowMs, fromMs) + (count / limit) * windowMs;
      });
      return Math.max(nowMs, ...ends);
    } catch {
      // A budget or a part of the batch does not answer.
      return Infinity;
    }
  }

  /** Which of the batch's follow-ups is sent next, according to their budgets. */
  async #readNextSend(budgets: BudgetAnswers): Promise<Pick<LiveBatchStatus, 'nextSend' | 'budgetsSilent'>> {
    const { client } = this.#target;
    const query = listQuery({ batch: this.batchId, state: 'waiting-for-budget' });
    const waiting = await take(listFollowUps(client, query), MOST_ASKED_ABOUT);
    const places = await readPlaces(budgets, waiting);
    const budgetsSilent: Record<string, string> = {};
    let nextSend: LiveBatchStatus['nextSend'];
    for (const { workflowId, projectId } of waiting) {
      const { position, expectedAt, unavailable } = places.get(workflowId) ?? {};
      if (unavailable !== undefined) budgetsSilent[projectId] = unavailable;
      if (position === undefined || (nextSend && !isSooner({ position, expectedAt }, nextSend))) continue;
      nextSend = { workflowId, position, ...defined({ expectedAt }) };
    }
    return { ...defined({ nextSend }), ...(Object.keys(budgetsSilent).length > 0 && { budgetsSilent }) };
  }

  /**
   * Running follow-ups in that state, from visibility, up to a second late; `undefined` if it cannot be
   * asked.
   */
  async #count(state?: FollowUpState): Promise<number | undefined> {
    const { client } = this.#target;
    const query = `${listQuery({ batch: this.batchId, ...defined({ state }) })} AND ExecutionStatus = 'Running'`;
    try {
      return (await callTemporal(client, () => client.workflow.count(query))).count;
    } catch (error) {
      // Not every visibility store can count; the batch's own counts are still worth showing.
      if (error instanceof FollowUpClientError) throw error;
      return undefined;
    }
  }

  async #query<Answer, Args extends unknown[]>(
    workflowId: string,
    query: QueryDefinition<Answer, Args>,
    args: Args,
  ): Promise<Answer> {
    return this.#call(() => queryWorkflow(this.#target.client, workflowId, QUERY_TIMEOUT_MS, query, ...args));
  }

  async #call<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await callTemporal(this.#target.client, call);
    } catch (error) {
      throw this.#translate(error);
    }
  }

  #translate(error: unknown): unknown {
    if (error instanceof WorkflowNotFoundError) {
      return new BatchNotFoundError(this.batchId, { cause: error });
    }
    return toConnectionError(this.#target.client, error) ?? error;
  }
}

/** What `startBatch` answers. */
export class StartedBatch extends BatchHandle {
  constructor(
    target: BatchTarget,
    batchId: string,
    /** The id was used before, with the same input: this is that batch. */
    readonly alreadyStarted: boolean,
  ) {
    super(target, batchId);
  }
}

/** Compares places in the queues of two projects by their instants, if both are known. */
function isSooner(one: Pick<NextSend, 'position'> & { expectedAt: string | undefined }, other: NextSend): boolean {
  if (one.expectedAt === undefined || other.expectedAt === undefined) return one.expectedAt !== undefined;
  return one.expectedAt < other.expectedAt || (one.expectedAt === other.expectedAt && one.position < other.position);
}
