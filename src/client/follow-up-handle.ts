import {
  type Client,
  WorkflowFailedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import {
  type FollowUpResult,
  followUpResultSchema,
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
import { awaitResult, type ResultOptions, toOutcomeError, toResult } from './result.js';
import { type FollowUpSummary, toFollowUpSummary } from './summary.js';
import { callTemporal, toConnectionError } from './temporal-call.js';
import { queryWorkflow, readTrouble, reasonOfSilence, type WorkflowTrouble } from './trouble.js';
import { type FollowUpUpdate, watchFollowUp, type WatchOptions } from './watches.js';

const QUERY_TIMEOUT_MS = 5_000;

/** One follow-up. Cheap to make: nothing is requested before a method is called. */
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
   * Waits for the end, without a time limit: polls Temporal, reconnects after lost connections, follows runs that were
   * continued as new or reset. Returns at once if the follow-up has ended.
   *
   * @throws FollowUpFailedError, FollowUpCancelledError, FollowUpTerminatedError, FollowUpTimedOutError,
   * UnexpectedOutcomeError, FollowUpNotFoundError, TemporalUnreachableError
   */
  async result(options: ResultOptions = {}): Promise<FollowUpResult> {
    const { workflowId } = this;
    try {
      const value = await awaitResult(this.#client, workflowId, () => this.describe(), options);
      return toResult(workflowId, value, followUpResultSchema, 'follow-up');
    } catch (error) {
      if (error instanceof WorkflowFailedError) throw toOutcomeError(workflowId, error);
      throw this.#translate(error);
    }
  }

  /**
   * What the follow-up knows and waits for, with its place from its budget, and its next look from Temporal.
   * Needs a running worker, even for ended follow-ups.
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
   * When something last happened to the follow-up, from Temporal. Needs no worker.
   *
   * @throws FollowUpNotFoundError, TemporalUnreachableError
   */
  async lastChangeAt(): Promise<string | undefined> {
    return this.#call(() => readNewestEventAt(this.#client, this.workflowId));
  }

  /**
   * What blocks the follow-up, and how to fix it: it, or its activity, is paused in Temporal, its tasks fail,
   * or no worker polls its task queue. `undefined` if nothing does. Needs no worker. See also `BudgetHandle.trouble`.
   *
   * @throws TemporalUnreachableError
   */
  async trouble(): Promise<WorkflowTrouble | undefined> {
    return readTrouble(this.#client, this.workflowId);
  }

  /**
   * The follow-up as Temporal sees it. Needs no worker.
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
   * Polls the follow-up, yields each change, and ends when the follow-up ends, in any way. While no worker
   * runs, the updates say so. Also ends when `signal` is aborted.
   *
   * @throws FollowUpNotFoundError, TemporalUnreachableError
   */
  watch(options: WatchOptions = {}): AsyncGenerator<FollowUpUpdate, void, undefined> {
    return watchFollowUp(this, options);
  }

  /**
   * Asks the follow-up to end. Before the send nothing is sent; after it the agent job itself continues. {@link result}
   * tells how it ended.
   *
   * @throws FollowUpEndedError, FollowUpNotFoundError, TemporalUnreachableError
   */
  async cancel(): Promise<void> {
    // Temporal accepts a request to cancel an ended workflow like any other.
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
   * An operator's statement whether the message was delivered; accepted only while the follow-up is reconciling.
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
    /** The key was used before: this is that follow-up; nothing new was started. */
    readonly alreadyStarted: boolean,
    /** Whether the existing follow-up has a different input; `undefined` if that cannot be determined. */
    readonly inputDiffers: boolean | undefined,
  ) {
    super(client, workflowId);
  }
}
