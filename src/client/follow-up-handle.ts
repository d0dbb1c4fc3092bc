import {
  type Client,
  WorkflowFailedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import {
  type FollowUpResult,
  pollNowSignal,
  progressQuery,
  resolveDeliveryUpdate,
  type ResolveWord,
} from '../contract/index.js';
import {
  FollowUpEndedError,
  FollowUpNotFoundError,
  ResolveRejectedError,
  TemporalUnreachableError,
  UnexpectedOutcomeError,
  WorkerUnavailableError,
} from './errors.js';
import { readNewestEventAt } from './history.js';
import { bringUpToDate, type LiveProgress } from './live-progress.js';
import { awaitResult, type ResultOptions, toFollowUpResult, toOutcomeError } from './result.js';
import { type FollowUpSummary, toFollowUpSummary } from './summary.js';
import { callTemporal, toConnectionError } from './temporal-call.js';
import { queryWorkflow, readTrouble, reasonOfSilence, type WorkflowTrouble } from './trouble.js';
import { type FollowUpUpdate, watchFollowUp, type WatchOptions } from './watches.js';

const QUERY_TIMEOUT_MS = 5_000;

/** One follow-up. Cheap to make; nothing is asked before a method is called. */
export class FollowUpHandle {
  readonly #client: Client;

  constructor(
    client: Client,
    /** `follow-up/{projectId}/{jobId}/{key}` */
    readonly workflowId: string,
  ) {
    this.#client = client;
  }

  /**
   * Waits for the end, however long it takes: polls Temporal, comes back after lost connections, follows runs that were
   * continued as new or reset. At once where the follow-up has ended.
   *
   * @throws FollowUpFailedError, FollowUpCancelledError, FollowUpTerminatedError, FollowUpTimedOutError,
   * UnexpectedOutcomeError, FollowUpNotFoundError, TemporalUnreachableError
   */
  async result(options: ResultOptions = {}): Promise<FollowUpResult> {
    const { workflowId } = this;
    try {
      return toFollowUpResult(workflowId, await awaitResult(this.#client, workflowId, () => this.describe(), options));
    } catch (error) {
      if (error instanceof WorkflowFailedError) throw toOutcomeError(workflowId, error);
      throw this.#translate(error);
    }
  }

  /**
   * What the follow-up knows and waits for, with its place as its budget says it now, and its next look as Temporal does.
   * Needs a running worker, for ended follow-ups, too.
   *
   * @throws WorkerUnavailableError, FollowUpNotFoundError, TemporalUnreachableError
   */
  async progress(): Promise<LiveProgress> {
    return this.#call(async () => {
      const progress = await queryWorkflow(this.#client, this.workflowId, QUERY_TIMEOUT_MS, progressQuery);
      return bringUpToDate(this.#client, this.workflowId, progress);
    });
  }

  /**
   * When something last happened to the follow-up, as Temporal knows it. Needs no worker.
   *
   * @throws FollowUpNotFoundError, TemporalUnreachableError
   */
  async lastChangeAt(): Promise<string | undefined> {
    return this.#call(() => readNewestEventAt(this.#client, this.workflowId));
  }

  /**
   * What keeps the follow-up from going on, with the way out: it, or its activity, is paused in Temporal, its tasks fail,
   * or no worker polls its task queue. `undefined` where nothing does. Needs no worker. See `BudgetHandle.trouble`, too.
   *
   * @throws TemporalUnreachableError
   */
  async trouble(): Promise<WorkflowTrouble | undefined> {
    return readTrouble(this.#client, this.workflowId);
  }

  /**
   * Where the follow-up stands as Temporal itself knows it. Needs no worker.
   *
   * @throws FollowUpNotFoundError, TemporalUnreachableError
   */
  async describe(): Promise<FollowUpSummary> {
    const info = await this.#call(() => this.#handle.describe());
    const summary = toFollowUpSummary(info);
    if (!summary) throw new UnexpectedOutcomeError(this.workflowId, `${this.workflowId} is not a follow-up`);
    return summary;
  }

  /**
   * Looks again and again, yields what has changed, and ends with the follow-up, whatever its end is. While no worker
   * runs the update says so and goes on. Ends also when `signal` is aborted.
   *
   * @throws FollowUpNotFoundError, TemporalUnreachableError
   */
  watch(options: WatchOptions = {}): AsyncGenerator<FollowUpUpdate, void, undefined> {
    return watchFollowUp(this, options);
  }

  /**
   * Asks the follow-up to end. Before the send nothing is sent; after it the agent job itself runs on. {@link result}
   * tells how it ended.
   *
   * @throws FollowUpEndedError, FollowUpNotFoundError, TemporalUnreachableError
   */
  async cancel(): Promise<void> {
    // To Temporal a request to cancel what has ended is as good as any.
    if ((await this.describe()).status !== 'running') throw new FollowUpEndedError(this.workflowId);
    await this.#message(() => this.#handle.cancel());
  }

  /**
   * Asks the follow-up to look at its job now.
   *
   * @throws FollowUpEndedError, FollowUpNotFoundError, TemporalUnreachableError
   */
  async pollNow(): Promise<void> {
    await this.#message(() => this.#handle.signal(pollNowSignal));
  }

  /**
   * An operator's word on whether the message was delivered; taken only while the follow-up is reconciling.
   *
   * @throws ResolveRejectedError, WorkerUnavailableError, FollowUpEndedError, FollowUpNotFoundError,
   * TemporalUnreachableError
   */
  async resolve(word: ResolveWord): Promise<void> {
    try {
      await this.#message(() => this.#handle.executeUpdate(resolveDeliveryUpdate, { args: [word] }));
    } catch (error) {
      if (error instanceof WorkflowUpdateFailedError) {
        throw new ResolveRejectedError(this.workflowId, error.cause?.message ?? error.message, { cause: error });
      }
      if (
        error instanceof TemporalUnreachableError &&
        error.cause instanceof WorkflowUpdateRPCTimeoutOrCancelledError
      ) {
        const reason = await reasonOfSilence(this.#client, this.workflowId, error);
        throw new WorkerUnavailableError(this.workflowId, reason, { cause: error });
      }
      throw error;
    }
  }

  get #handle() {
    return this.#client.workflow.getHandle(this.workflowId);
  }

  async #message(send: () => Promise<unknown>): Promise<void> {
    try {
      await callTemporal(this.#client, send, { workflowId: this.workflowId });
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      // Temporal answers "not found" for ended workflows, too.
      await this.describe();
      throw new FollowUpEndedError(this.workflowId, { cause: error });
    }
  }

  async #call<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await callTemporal(this.#client, call, { workflowId: this.workflowId });
    } catch (error) {
      throw this.#translate(error);
    }
  }

  #translate(error: unknown): unknown {
    if (error instanceof WorkflowNotFoundError) return new FollowUpNotFoundError(this.workflowId, { cause: error });
    return toConnectionError(this.#client, error, this.workflowId) ?? error;
  }
}

/** What {@link FollowUpClient.start} answers. */
export class StartedFollowUp extends FollowUpHandle {
  constructor(
    client: Client,
    workflowId: string,
    /** Unique within the job; the same key is the same follow-up. */
    readonly key: string,
    /** The key was used before: this is that follow-up, and nothing new was started. */
    readonly alreadyStarted: boolean,
    /** Whether the one that was there has another input; `undefined` where that cannot be told. */
    readonly inputDiffers: boolean | undefined,
  ) {
    super(client, workflowId);
  }
}
