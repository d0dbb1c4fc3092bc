import {
  type Client,
  QueryNotRegisteredError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import type { QueryDefinition } from '@temporalio/common';
import { defined } from '../common/index.js';
import {
  type BatchHold,
  type BatchItem,
  batchItemsQuery,
  type BatchStatus,
  batchStatusQuery,
  continueBatchUpdate,
  type FollowUpBatchResult,
  followUpBatchResultSchema,
  followUpBatchWorkflowId,
  type ListedItems,
  SearchAttribute,
  WorkflowType,
} from '../contract/index.js';
import { batchPartsQuery } from '../protocol/index.js';
import { IS_OPEN } from '../temporal/lookups.js';
import { planRetry, type PlanRetryOptions, type RetryPlan } from './batch-retry.js';
import { queryWorkflow, sendUpdate } from './calls.js';
import { FollowUpClientError, RefusedError, WorkerUnavailableError } from './client-errors.js';
import { stateOf, toFollowUpSummary } from './follow-up-handle.js';
import { checkBatch, handOver, type StartBatchInput, type StartBatchOptions } from './hand-over.js';
import { findTroublesOfBatch, type WorkflowTrouble } from './health.js';
import { listQuery } from './list.js';
import { awaitResult, type ResultOptions, toBatchError } from './result.js';
import { type About, callTemporal, type ExecutionStatus, listWorkflows, toExecutionStatus } from './temporal.js';

/** A batch of thousands may have to replay its history first. */
const QUERY_TIMEOUT_MS = 10_000;
const PAGE_SIZE = 500;

/** A batch in Temporal's own records. Times are ISO 8601 in UTC. */
export interface BatchExecution {
  status: ExecutionStatus;
  startedAt: string;
  endedAt?: string;
}

export interface BatchTarget {
  client: Client;
  taskQueue: string;
}

/**
 * A handle of a batch, which makes no request until a method is called. Methods throw a RefusedError if the batch does
 * not exist, and a TemporalUnreachableError.
 */
export class BatchHandle {
  readonly #target: BatchTarget;
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
   * Counts of the items, and whether the batch is held; `cutOff` and `listed` if it ended without a result. Needs a
   * running worker, even for ended batches.
   *
   * @throws BatchFailedError if it failed at its start, WorkerUnavailableError
   */
  async status(): Promise<BatchStatus> {
    const status = await this.#query(this.workflowId, batchStatusQuery, []);
    if (status.ended) return status;
    const execution = (await this.describe()).status;
    if (execution === 'running') {
      return status.open === 0 ? status : { ...status, waitingToSend: await this.#countWaiting() };
    }
    return { ...status, cutOff: execution, listed: await this.listed() };
  }

  /**
   * Every item in its current state, in the order of the batch, page by page. Needs a running worker.
   *
   * @throws WorkerUnavailableError, RefusedError if Temporal no longer keeps a part
   */
  async *list(): AsyncGenerator<BatchItem, void, undefined> {
    const { workflowId } = this;
    let offset = 0;
    let asked = workflowId;
    for (;;) {
      const { items, total, elsewhere } = await this.#query(asked, batchItemsQuery, [{ offset, limit: PAGE_SIZE }]);
      yield* items;
      offset += items.length;
      // A part knows only its own items.
      if (asked === workflowId && offset >= total) return;
      // After the last items of a part, the batch continues.
      const next = elsewhere?.workflowId ?? workflowId;
      if (items.length === 0 && next === asked) return;
      asked = next;
    }
  }

  /**
   * Its follow-ups by project and state, as Temporal lists them, about a second old. Needs no worker.
   *
   * @param isOpen whether only running ones are read
   */
  async listed({ isOpen = false } = {}): Promise<ListedItems[]> {
    const groups = new Map<string, ListedItems>();
    const query = `${listQuery({ batch: this.batchId })}${isOpen ? ` AND ${IS_OPEN}` : ''}`;
    for await (const info of listWorkflows(this.#target.client, query)) {
      const summary = toFollowUpSummary(info);
      if (!summary) continue;
      const { projectId, status } = summary;
      const [isRunning, state] = [status === 'running', stateOf(summary)];
      const key = `${projectId} ${state}`;
      groups.set(key, { projectId, state, isRunning, count: (groups.get(key)?.count ?? 0) + 1 });
    }
    return [...groups.values()];
  }

  /** Workflow ids of its parts, which hold its items. Needs a running worker. */
  async parts(): Promise<string[]> {
    return this.#query(this.workflowId, batchPartsQuery, []);
  }

  /**
   * Waits for the end, without a time limit. Then every item has an outcome, even in a cancelled batch.
   *
   * @throws BatchFailedError, FollowUpFailedError for a result of a newer version
   */
  async result(options: ResultOptions = {}): Promise<FollowUpBatchResult> {
    const awaited = {
      about: this.#about,
      describe: () => this.describe(),
      schema: followUpBatchResultSchema,
      what: 'batch',
      toError: toBatchError.bind(undefined, this.batchId),
    };
    return awaitResult(this.#target.client, awaited, options);
  }

  /**
   * Cancels the batch: nothing more is sent. {@link result} gives each item's outcome; agent jobs with a delivered
   * message continue.
   *
   * @throws RefusedError if it has ended
   */
  async cancel(): Promise<void> {
    // Temporal accepts a cancel of an ended workflow.
    if ((await this.describe()).status !== 'running') throw new RefusedError('BatchEnded', this.batchId);
    await this.#call(() => this.#handle.cancel());
  }

  /**
   * Continues a held batch, or starts the rest before its canary has ended.
   *
   * @returns the hold that it ended; `null` for a canary that had not ended
   * @throws RefusedError if it is not held, or has ended; WorkerUnavailableError
   */
  async continue(): Promise<BatchHold | null> {
    const { hold, canary } = await this.#query(this.workflowId, batchStatusQuery, []);
    // A repeated call ends only the same hold.
    const updateId = `continue ${hold?.at ?? `canary ${String(canary)}`}`;
    const proceed = () => this.#handle.executeUpdate(continueBatchUpdate, { updateId });
    try {
      return (await sendUpdate(this.#target.client, this.#about, proceed)).hold;
    } catch (error) {
      if (RefusedError.is(error, 'BatchNotFound')) throw new RefusedError('BatchEnded', this.batchId, { cause: error });
      if (error instanceof WorkflowUpdateFailedError) {
        throw new RefusedError('BatchNotHeld', this.batchId, { cause: error });
      }
      throw error;
    }
  }

  /**
   * Plans to send items of an ended batch again, with new keys, as another batch: `nightly-retry-1`, then
   * `nightly-retry-2`. Asks Temporal for the outcome of each item without success, in the batch and in all its retries.
   * The retry of a retry is the next retry of the batch itself. The batch's `maxOpen`, `maxFailures` and `notify`, and
   * its `canary` unless {@link continue} has ended it, also apply to the retry.
   *
   * @throws RefusedError if it runs, or if Temporal no longer keeps its items; WorkerUnavailableError
   */
  async planRetry(options: PlanRetryOptions = {}): Promise<RetryPlan> {
    return planRetry(this.#target.client, (batchId) => new BatchHandle(this.#target, batchId), this.batchId, options);
  }

  /**
   * Starts what {@link planRetry} has planned.
   *
   * @throws RefusedError if the plan has no items; InvalidInputError if the retry's id is too long; what `startBatch`
   *   throws
   */
  async retry({ input, retryOf, indexes }: RetryPlan, options: StartBatchOptions = {}): Promise<StartedBatch> {
    if (input.items.length === 0) throw new RefusedError('NothingToRetry', retryOf);
    return startBatch(this.#target, input, options, { retryOf, indexes });
  }

  /**
   * What blocks the batch or its parts, and how to fix it: paused in Temporal, failing, or without a worker. Needs no
   * worker.
   */
  async troubles(): Promise<WorkflowTrouble[]> {
    return findTroublesOfBatch(this.#target.client, this.batchId);
  }

  /** The batch in Temporal's own records. Needs no worker. */
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

  /** Number of running follow-ups that wait to send, up to a second old; `undefined` if not available. */
  async #countWaiting(): Promise<number | undefined> {
    const { client } = this.#target;
    const states = `${SearchAttribute.state.name} IN ('waiting-for-budget', 'blocked')`;
    const query = `${listQuery({ batch: this.batchId })} AND ${states} AND ${IS_OPEN}`;
    try {
      return (await callTemporal(client, () => client.workflow.count(query))).count;
    } catch (error) {
      // Not every visibility store can count; the batch's own counts are still useful.
      if (error instanceof FollowUpClientError) throw error;
      return undefined;
    }
  }

  async #query<Result, Args extends unknown[]>(
    workflowId: string,
    query: QueryDefinition<Result, Args>,
    args: Args,
  ): Promise<Result> {
    const { client } = this.#target;
    const about: About =
      workflowId === this.workflowId ? this.#about : { workflowId, missing: ['BatchPartNotFound', this.batchId] };
    try {
      const ask = () => queryWorkflow(client, workflowId, QUERY_TIMEOUT_MS, query, ...args);
      return await callTemporal(client, ask, about);
    } catch (error) {
      // It failed before it could answer. Its result has the reason.
      const isUnknown = error instanceof WorkerUnavailableError && error.cause instanceof QueryNotRegisteredError;
      if (isUnknown && (await this.describe()).status !== 'running') await this.result();
      throw error;
    }
  }

  get #about(): About {
    return { workflowId: this.workflowId, missing: ['BatchNotFound', this.batchId] };
  }

  async #call<T>(call: () => Promise<T>): Promise<T> {
    return callTemporal(this.#target.client, call, this.#about);
  }
}

/** Memo field with the digest of the input; missing if another client started the batch. */
export const DIGEST_MEMO = 'inputDigest';

/** Result of `startBatch`. */
export class StartedBatch extends BatchHandle {
  constructor(
    target: BatchTarget,
    batchId: string,
    /** Whether the id was used before, with the same input: this is that batch. */
    readonly alreadyStarted: boolean,
  ) {
    super(target, batchId);
  }
}

/** See `FollowUpClient.startBatch`. @param memo further fields of the batch's memo */
export async function startBatch(
  target: BatchTarget,
  input: StartBatchInput,
  options: StartBatchOptions = {},
  memo: Record<string, unknown> = {},
): Promise<StartedBatch> {
  const { client, taskQueue } = target;
  const plan = checkBatch(input);
  options.signal?.throwIfAborted();
  const { batchId, items } = plan;
  const workflowId = followUpBatchWorkflowId({ batchId });
  const start = () =>
    client.workflow.start(WorkflowType.followUpBatch, {
      workflowId,
      taskQueue,
      args: [plan.firstInput],
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      workflowIdConflictPolicy: 'FAIL',
      staticSummary: `Follow-ups to ${items.length} ${items.length === 1 ? 'job' : 'jobs'}`,
      memo: { ...memo, [DIGEST_MEMO]: plan.digest },
    });
  let alreadyStarted = false;
  try {
    await callTemporal(client, start, { workflowId });
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    alreadyStarted = true;
    const { memo } = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
    if (memo?.[DIGEST_MEMO] !== plan.digest) throw new RefusedError('BatchInputDiffers', batchId);
  }
  const batch = new StartedBatch(target, batchId, alreadyStarted);
  if (plan.isInPieces) await handOver(client, batch, plan, options);
  return batch;
}
