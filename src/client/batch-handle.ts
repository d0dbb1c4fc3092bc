import { type Client, WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure, type QueryDefinition, TerminatedFailure, WorkflowNotFoundError } from '@temporalio/common';
import { z } from 'zod';
import { defined } from '../contract/defined.js';
import {
  type BatchItem,
  batchItemsQuery,
  type BatchStatus,
  batchStatusQuery,
  describeIssues,
  type FollowUpBatchResult,
  followUpBatchResultSchema,
  followUpBatchWorkflowId,
  type FollowUpState,
  type InputIssue,
  parseInput,
} from '../contract/index.js';
import { expectBatchEnd } from './batch-forecast.js';
import type { StartBatchInput, StartBatchOptions } from './batch-plan.js';
import { planRetry, type RetryOptions, type RetryPlan } from './batch-retry.js';
import {
  BatchEndedError,
  BatchFailedError,
  BatchNotFoundError,
  BatchRunningError,
  FollowUpClientError,
  UnexpectedOutcomeError,
} from './errors.js';
import { listFollowUps, listQuery, take } from './list.js';
import { BudgetAnswers, readPlaces } from './live-progress.js';
import { awaitResult, type ResultOptions } from './result.js';
import { type ExecutionStatus, toExecutionStatus } from './summary.js';
import { callTemporal, toConnectionError } from './temporal-call.js';
import { findTroublesOfBatch, queryWorkflow, type WorkflowTrouble } from './trouble.js';
import { pauseBetweenLooks } from './watches.js';

/** A batch of thousands may have to read its history again before it answers. */
const QUERY_TIMEOUT_MS = 10_000;
const PAGE_SIZE = 500;
/** How long an expected end is reused. The more items there are to read, the longer. */
const FORECAST_EVERY_MS = 3_000;
const FORECAST_EVERY_MS_AN_ITEM = 10;
/** Follow-ups whose place is looked up. */
const MOST_ASKED_ABOUT = 500;

/** A batch as Temporal itself sees it. Instants are ISO 8601 in UTC. */
export interface BatchExecution {
  status: ExecutionStatus;
  startedAt: string;
  endedAt?: string;
}

/** The follow-up of a batch that is sent next. */
export interface NextSend {
  workflowId: string;
  /** In the line of its project. */
  position: number;
  /** Expected instant of the send, as the budget says it now. ISO 8601 in UTC. */
  expectedAt?: string;
}

/** How a batch stands, with what others know by now. */
export interface LiveBatchStatus extends BatchStatus {
  /** Missing where none waits for its slot, or none of them is among the first of its project's line. */
  nextSend?: NextSend;
  /**
   * When the batch is expected to end, as the slots of its projects and the lengths of the turns that have ended tell.
   * Missing where that cannot be told. ISO 8601 in UTC.
   */
  expectedEndAt?: string;
  /** Projects whose budget does not answer, while follow-ups of the batch wait for it, and why. */
  budgetsSilent?: Record<string, string>;
}

/** Where batches are started, and how. */
export interface BatchTarget {
  client: Client;
  taskQueue: string;
  start: (input: StartBatchInput, options?: StartBatchOptions) => Promise<StartedBatch>;
}

/** Options of {@link BatchHandle.items}. */
export interface ItemsOptions {
  /** Time between two looks. @default 2_000 */
  intervalMs?: number;
  /** Ends the iteration without an error. */
  signal?: AbortSignal;
}

/** One batch. Cheap to make; nothing is asked before a method is called. */
export class BatchHandle {
  readonly #target: BatchTarget;
  #forecast: { endMs: number | undefined; againAtMs: number } | undefined;
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
   * Counts of the items, and when the batch is expected to end, looked at every few seconds; `cutOff` where it ended
   * without a result. Needs a running worker, for ended batches, too.
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
    // Its own counts are those of its end: how many follow-ups go on since, only Temporal knows.
    return { ...status, cutOff: execution, stillRunning: await this.#count() };
  }

  /**
   * Every item as it is now, in the order of the batch, page by page while it is iterated. Needs a running worker.
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
      // A part knows no more than the items up to its own last.
      if (asked === workflowId && offset >= total) return;
      // A part that has nothing more to say hands back to the batch.
      const next = elsewhere?.workflowId ?? workflowId;
      if (items.length === 0 && next === asked) return;
      asked = next;
    }
  }

  /**
   * Items as they end, in that order by about `intervalMs`, each once; ends with the batch, or when `signal` is aborted.
   * Needs a running worker.
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
   * Waits for the end, however long it takes. Every item has an outcome then, also in a batch that was cancelled.
   *
   * @throws BatchFailedError, BatchNotFoundError, UnexpectedOutcomeError, TemporalUnreachableError
   */
  async result(options: ResultOptions = {}): Promise<FollowUpBatchResult> {
    const { workflowId } = this;
    const { client } = this.#target;
    try {
      return toBatchResult(workflowId, await awaitResult(client, workflowId, () => this.describe(), options));
    } catch (error) {
      if (error instanceof WorkflowFailedError) throw this.#toOutcomeError(error);
      throw this.#translate(error);
    }
  }

  /**
   * Asks the batch to end: what is not sent yet is not sent. {@link result} tells what became of each item; agent jobs
   * that were sent their message run on.
   *
   * @throws BatchEndedError, BatchNotFoundError, TemporalUnreachableError
   */
  async cancel(): Promise<void> {
    // To Temporal a request to cancel what has ended is as good as any.
    if ((await this.describe()).status !== 'running') throw new BatchEndedError(this.batchId);
    await this.#call(() => this.#handle.cancel());
  }

  /**
   * Sends items of a batch that has ended again, with fresh keys, as a batch of its own whose id follows from this one's.
   * Repeated it finds that batch, and sends nothing. Items whose delivery is unknown may be delivered a second time:
   * {@link planRetry} tells how many those are.
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
   * @throws BatchRunningError, NothingToRetryError, BatchNotFoundError; InvalidInputError where the id would get too long;
   * UnexpectedOutcomeError where Temporal does not keep the items any more; WorkerUnavailableError
   */
  async planRetry({ only }: RetryOptions = {}): Promise<RetryPlan> {
    if ((await this.describe()).status === 'running') throw new BatchRunningError(this.batchId);
    return planRetry(this.#target.client, this, { only });
  }

  /**
   * What keeps the batch or one of its parts from going on, with the way out: paused in Temporal, failing, or without a
   * worker. Needs no worker.
   *
   * @throws TemporalUnreachableError
   */
  async troubles(): Promise<WorkflowTrouble[]> {
    return findTroublesOfBatch(this.#target.client, this.batchId);
  }

  /**
   * Where the batch stands as Temporal itself knows it. Needs no worker.
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

  /** A look at everything costs some queries: of many items it is made less often than somebody watches. */
  async #expectEnd(
    { total, open, waitingToStart, maxOpen }: BatchStatus,
    budgets: BudgetAnswers,
  ): Promise<{ expectedEndAt?: string }> {
    const nowMs = Date.now();
    const left = open + waitingToStart;
    const isDue = nowMs >= (this.#forecast?.againAtMs ?? 0);
    // Before any turn has ended nothing is known of its length.
    if (isDue && left > 0 && left < total) {
      let endMs: number | undefined;
      try {
        const items = await take(this.list());
        endMs = await expectBatchEnd(this.#target.client, budgets, { batchId: this.batchId, maxOpen, items });
      } catch {
        // A budget or a list that gives no answer: nothing is said of the end.
      }
      this.#forecast = { againAtMs: nowMs + FORECAST_EVERY_MS + total * FORECAST_EVERY_MS_AN_ITEM, endMs };
    }
    const { endMs } = this.#forecast ?? {};
    return endMs === undefined || endMs < Date.now() ? {} : { expectedEndAt: new Date(endMs).toISOString() };
  }

  /** Which of the batch's follow-ups is sent next, as their budgets say it. */
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
   * Follow-ups that run, in that state; visibility knows it, up to a second late; `undefined` where it cannot be
   * asked.
   */
  async #count(state?: FollowUpState): Promise<number | undefined> {
    const { client } = this.#target;
    const query = `${listQuery({ batch: this.batchId, ...defined({ state }) })} AND ExecutionStatus = 'Running'`;
    try {
      return (await callTemporal(client, () => client.workflow.count(query))).count;
    } catch (error) {
      // Not every store of Temporal counts; the counts of the batch itself are worth more than none.
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

  #toOutcomeError(error: WorkflowFailedError): BatchFailedError {
    const { cause } = error;
    const failed = (type: string, reason: string, issues?: InputIssue[]) =>
      new BatchFailedError(this.batchId, type, reason, issues, { cause: error });
    if (cause instanceof TerminatedFailure) return failed('Terminated', `it was terminated: ${cause.message}`);
    if (cause instanceof ApplicationFailure) {
      return failed(cause.type ?? 'Unexpected', cause.message, issuesOf(cause.details?.[0]));
    }
    return failed('Unexpected', cause?.message ?? error.message);
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

/** Places in the lines of two projects are compared by their instants, where both are known. */
function isSooner(one: Pick<NextSend, 'position'> & { expectedAt: string | undefined }, other: NextSend): boolean {
  if (one.expectedAt === undefined || other.expectedAt === undefined) return one.expectedAt !== undefined;
  return one.expectedAt < other.expectedAt || (one.expectedAt === other.expectedAt && one.position < other.position);
}

function toBatchResult(workflowId: string, value: unknown): FollowUpBatchResult {
  const parsed = parseInput(followUpBatchResultSchema(), value);
  if (parsed.ok) return parsed.value;
  throw new UnexpectedOutcomeError(
    workflowId,
    `the workflow's result is not a batch result: ${describeIssues(parsed.issues)}`,
  );
}

function issuesOf(details: unknown): InputIssue[] | undefined {
  const issueSchema = z.object({ field: z.string(), message: z.string() });
  return z.looseObject({ issues: z.array(issueSchema) }).safeParse(details).data?.issues;
}
