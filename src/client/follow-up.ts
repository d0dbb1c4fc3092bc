import { isDeepStrictEqual } from 'node:util';
import {
  type Client,
  type WorkflowExecutionInfo,
  WorkflowFailedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { defined } from '../contract/defined.js';
import {
  followUpInputSchema,
  type FollowUpResult,
  followUpResultSchema,
  type FollowUpSettings,
  type FollowUpState,
  followUpStates,
  parseFollowUpWorkflowId,
  parseInput,
  pollNowSignal,
  resolveDeliveryUpdate,
  type ResolveWord,
  SearchAttribute,
} from '../contract/index.js';
import { readRunStart } from '../temporal/run-start.js';
import { FollowUpFailedError, RefusedError, TemporalUnreachableError, WorkerUnavailableError } from './errors.js';
import { type LiveProgress, readProgress } from './progress.js';
import { awaitResult, type ResultOptions, toOutcomeError, toResult } from './result.js';
import { callTemporal, type ExecutionStatus, toConnectionError, toExecutionStatus } from './temporal.js';
import { readTrouble, reasonOfSilence, type WorkflowTrouble } from './health.js';
import { watchChanges, type WatchOptions } from './watch.js';

/** A follow-up as Temporal's visibility shows it, without a worker. Instants are ISO 8601 in UTC. */
export interface FollowUpSummary {
  workflowId: string;
  projectId: string;
  jobId: string;
  key: string;
  status: ExecutionStatus;
  state?: FollowUpState;
  /** The agent job's status as last seen. */
  jobStatus?: string;
  prLink?: string;
  batchId?: string;
  startedAt: string;
  endedAt?: string;
}

/** Summary of a workflow; `undefined` if its id is not a follow-up's. */
export function toFollowUpSummary(info: Omit<WorkflowExecutionInfo, 'raw'>): FollowUpSummary | undefined {
  const id = parseFollowUpWorkflowId(info.workflowId);
  if (!id) return undefined;
  const attributes = info.typedSearchAttributes;
  return {
    workflowId: info.workflowId,
    ...id,
    status: toExecutionStatus(info.status.name),
    ...defined({
      state: followUpStates.find((known) => known === attributes.get(SearchAttribute.state)),
      jobStatus: attributes.get(SearchAttribute.jobStatus),
      prLink: attributes.get(SearchAttribute.prLink),
      batchId: attributes.get(SearchAttribute.batchId),
    }),
    startedAt: info.startTime.toISOString(),
    ...defined({ endedAt: info.closeTime?.toISOString() }),
  };
}

/** One change that a watch of a follow-up saw. */
export interface FollowUpUpdate {
  summary: FollowUpSummary;
  /** Missing while no worker answers; then `progressUnavailable` says why. */
  progress?: LiveProgress;
  progressUnavailable?: string;
}

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
   * @throws FollowUpFailedError, RefusedError if there is no such follow-up, TemporalUnreachableError
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
   * What the follow-up knows and waits for, with its place from its budget, and its next poll from Temporal.
   * Needs a running worker, even for ended follow-ups.
   *
   * @throws WorkerUnavailableError, RefusedError if there is no such follow-up, TemporalUnreachableError
   */
  async progress(): Promise<LiveProgress> {
    return this.#call(() => readProgress(this.#client, this.workflowId));
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
   * @throws RefusedError if there is no such follow-up, TemporalUnreachableError
   */
  async describe(): Promise<FollowUpSummary> {
    const summary = toFollowUpSummary(await this.#call(() => this.#handle.describe()));
    if (summary) return summary;
    const message = `${this.workflowId} is not a follow-up`;
    throw new FollowUpFailedError(this.workflowId, 'Unexpected', message, { delivered: 'unknown' });
  }

  /**
   * Polls the follow-up, yields each change, and ends when the follow-up ends, in any way. While no worker
   * runs, the updates say so. Also ends when `signal` is aborted.
   *
   * @throws RefusedError if there is no such follow-up, TemporalUnreachableError
   */
  watch(options: WatchOptions = {}): AsyncGenerator<FollowUpUpdate, void, undefined> {
    return watchChanges(options, {
      // The order matters: a progress asked for after the end was seen is the last there is.
      look: async () => {
        const summary = await this.describe();
        return { summary, ...(await this.#look()) };
      },
      outdated: ({ summary }, reason) => ({ summary, progressUnavailable: reason }),
      isLast: ({ summary }) => summary.status !== 'running',
    });
  }

  /**
   * Asks the follow-up to end. Before the send nothing is sent; after it the agent job itself continues. {@link result}
   * tells how it ended.
   *
   * @throws RefusedError if there is no such follow-up, or it has ended; TemporalUnreachableError
   */
  async cancel(): Promise<void> {
    // Temporal accepts a request to cancel an ended workflow like any other.
    if ((await this.describe()).status !== 'running') throw new RefusedError('FollowUpEnded', this.workflowId);
    await this.#message(() => this.#handle.cancel());
  }

  /**
   * Asks the follow-up to poll its job now.
   *
   * @throws RefusedError if there is no such follow-up, or it has ended; TemporalUnreachableError
   */
  async pollNow(): Promise<void> {
    await this.#message(() => this.#handle.signal(pollNowSignal));
  }

  /**
   * An operator's statement whether the message was delivered; accepted only while the follow-up is reconciling.
   *
   * @throws RefusedError if it is not reconciling, has ended or does not exist; WorkerUnavailableError,
   * TemporalUnreachableError
   */
  async resolve(word: ResolveWord): Promise<void> {
    try {
      await this.#message(() => this.#handle.executeUpdate(resolveDeliveryUpdate, { args: [word] }));
    } catch (error) {
      const cause = error instanceof TemporalUnreachableError ? error.cause : error;
      if (cause instanceof WorkflowUpdateFailedError) {
        throw new RefusedError('ResolveRejected', this.workflowId, {
          why: cause.cause?.message ?? cause.message,
          cause,
        });
      }
      if (!(cause instanceof WorkflowUpdateRPCTimeoutOrCancelledError)) throw error;
      const reason = await reasonOfSilence(this.#client, this.workflowId, error);
      throw new WorkerUnavailableError(this.workflowId, reason, { cause });
    }
  }

  async #look(): Promise<Omit<FollowUpUpdate, 'summary'>> {
    try {
      return { progress: await this.progress() };
    } catch (error) {
      if (!(error instanceof WorkerUnavailableError)) throw error;
      return { progressUnavailable: error.reason };
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
      throw new RefusedError('FollowUpEnded', this.workflowId, { cause: error });
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
    if (error instanceof WorkflowNotFoundError) {
      return new RefusedError('FollowUpNotFound', this.workflowId, { cause: error });
    }
    return toConnectionError(this.#client, error, this.workflowId) ?? error;
  }
}

/** What `FollowUpClient.start` answers. */
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

/**
 * Whether an existing workflow was started with other settings; durations and defaults are compared by
 * meaning. `undefined` if that cannot be determined: its history is gone, or not readable with this client's data
 * converter.
 */
export async function inputDiffers(
  client: Client,
  workflowId: string,
  settings: FollowUpSettings,
): Promise<boolean | undefined> {
  try {
    const parsed = parseInput(followUpInputSchema, (await readRunStart(client, workflowId))[0]);
    return !parsed.ok || !isDeepStrictEqual(parsed.value, settings);
  } catch {
    return undefined;
  }
}
