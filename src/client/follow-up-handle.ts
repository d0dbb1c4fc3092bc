import {
  type Client,
  QueryNotRegisteredError,
  WorkflowFailedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { TerminatedFailure, WorkflowNotFoundError } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type FollowUpProgress,
  type FollowUpResult,
  pollNowSignal,
  progressQuery,
  resolveDeliveryUpdate,
} from '../contract/index.js';
import {
  FollowUpEndedError,
  FollowUpNotFoundError,
  ResolveRejectedError,
  TemporalUnreachableError,
  UnexpectedOutcomeError,
  WorkerUnavailableError,
} from './errors.js';
import { toFollowUpResult, toOutcomeError } from './outcome.js';
import { type FollowUpSummary, toFollowUpSummary } from './summary.js';
import { callTemporal, grpcDetails, isPassingTrouble, toConnectionError } from './temporal-call.js';
import { type FollowUpUpdate, watchFollowUp, type WatchOptions } from './watch.js';

/** Options of {@link FollowUpHandle.result}. */
export interface ResultOptions {
  /** Ends the wait, not the follow-up; the promise rejects with the signal's reason. */
  signal?: AbortSignal;
  /** How long Temporal may be away in one piece before the wait ends. @default 600_000 (10 min) */
  reconnectTimeoutMs?: number;
}

/** The server ends an empty long poll after about 20 s; a call that takes longer than this has lost its server. */
const LONG_POLL_TIMEOUT_MS = 60_000;
const DEFAULT_RECONNECT_TIMEOUT_MS = 600_000;
const RECONNECT_INTERVAL_MS = 1_000;
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
  async result({
    signal,
    reconnectTimeoutMs = DEFAULT_RECONNECT_TIMEOUT_MS,
  }: ResultOptions = {}): Promise<FollowUpResult> {
    for (;;) {
      signal?.throwIfAborted();
      try {
        return toFollowUpResult(this.workflowId, await this.#longPoll(signal));
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof WorkflowFailedError) {
          // A reset terminates the run and starts another under the same id, with the same promise to deliver once.
          if (error.cause instanceof TerminatedFailure && (await this.describe()).status !== 'terminated') continue;
          throw toOutcomeError(this.workflowId, error);
        }
        if (!isPassingTrouble(error)) throw this.#translate(error);
        await this.#untilReachable(reconnectTimeoutMs, signal);
      }
    }
  }

  /**
   * What the follow-up knows and waits for. Needs a running worker, for ended follow-ups, too.
   *
   * @throws WorkerUnavailableError, FollowUpNotFoundError, TemporalUnreachableError
   */
  async progress(): Promise<FollowUpProgress> {
    const { workflowId } = this;
    try {
      const deadline = Date.now() + QUERY_TIMEOUT_MS;
      return await this.#client.withDeadline(deadline, () => this.#handle.query(progressQuery));
    } catch (error) {
      if (error instanceof QueryNotRegisteredError) {
        throw new WorkerUnavailableError(workflowId, 'it has not begun', { cause: error });
      }
      // A query waits for a worker: without one it ends at the deadline, just as without a server.
      await this.describe();
      if (error instanceof WorkflowNotFoundError) throw this.#translate(error);
      const reason = isPassingTrouble(error)
        ? 'no worker runs, or it is overloaded'
        : (grpcDetails(error) ?? String(error));
      throw new WorkerUnavailableError(workflowId, reason, { cause: error });
    }
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
  async resolve(word: 'sent' | 'notSent'): Promise<void> {
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
        await this.describe();
        throw new WorkerUnavailableError(this.workflowId, 'no worker runs, or it is overloaded', { cause: error });
      }
      throw error;
    }
  }

  get #handle() {
    return this.#client.workflow.getHandle(this.workflowId);
  }

  async #longPoll(signal: AbortSignal | undefined): Promise<unknown> {
    const poll = () => this.#client.withDeadline(Date.now() + LONG_POLL_TIMEOUT_MS, () => this.#handle.result());
    // The SDK never takes its listeners off a signal, so each long poll gets a signal of its own.
    return signal ? this.#client.withAbortSignal(AbortSignal.any([signal]), poll) : poll();
  }

  async #untilReachable(timeoutMs: number, signal: AbortSignal | undefined): Promise<void> {
    const giveUpAtMs = Date.now() + timeoutMs;
    for (;;) {
      try {
        await this.describe();
        return;
      } catch (error) {
        if (!isPassingTrouble(error) || Date.now() >= giveUpAtMs) throw error;
      }
      await sleep(RECONNECT_INTERVAL_MS, undefined, signal ? { signal } : {});
    }
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
