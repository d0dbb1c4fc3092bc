import { isDeepStrictEqual } from 'node:util';
import { type Client, type WorkflowExecutionInfo, WorkflowUpdateFailedError } from '@temporalio/client';
import { defined } from '../common/index.js';
import {
  type DeliveryDecision,
  followUpInputSchema,
  type FollowUpResult,
  followUpResultSchema,
  type FollowUpSettings,
  type FollowUpState,
  followUpStates,
  isEndState,
  parseFollowUpWorkflowId,
  parseInput,
  pollNowSignal,
  resolveDeliveryUpdate,
  SearchAttribute,
} from '../contract/index.js';
import { readRunStart } from '../temporal/lookups.js';
import { resultOf, sendUpdate } from './calls.js';
import { FollowUpFailedError, RefusedError } from './client-errors.js';
import { readTrouble, type WorkflowTrouble } from './health.js';
import { type LiveProgress, readProgress } from './live-progress.js';
import { awaitResult, type ResultOptions, toOutcomeError } from './result.js';
import { type About, callTemporal, type ExecutionStatus, toExecutionStatus } from './temporal.js';
import { watchChanges, type WatchOptions } from './watch-changes.js';

/** A follow-up in Temporal's visibility, without a worker. Times are ISO 8601 in UTC. */
export interface FollowUpSummary {
  workflowId: string;
  projectId: string;
  jobId: string;
  key: string;
  status: ExecutionStatus;
  state?: FollowUpState;
  /** The agent job's status at the last read. */
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

/** The state of a follow-up, or Temporal's status if it ended without its own, for example when terminated. */
export function stateOf({ status, state }: FollowUpSummary): string {
  if (status === 'running') return state ?? 'starting';
  return state !== undefined && isEndState(state) ? state : status;
}

/** A change of a watched follow-up. */
export interface FollowUpUpdate {
  summary: FollowUpSummary;
  /** Missing while no worker answers; then `progressUnavailable` says why. */
  progress?: LiveProgress;
  progressUnavailable?: string;
}

/**
 * A handle of a follow-up, which makes no request until a method is called. Methods throw a RefusedError if the
 * follow-up does not exist, and a TemporalUnreachableError.
 */
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
   * Waits for the end, without a time limit: polls Temporal, reconnects after lost connections, and follows continued
   * and reset runs. Returns at once if the follow-up has ended.
   *
   * @throws FollowUpFailedError
   */
  async result(options: ResultOptions = {}): Promise<FollowUpResult> {
    const awaited = {
      about: this.#about,
      describe: () => this.describe(),
      schema: followUpResultSchema,
      what: 'follow-up',
      toError: toOutcomeError.bind(undefined, this.workflowId),
    };
    return awaitResult(this.#client, awaited, options);
  }

  /**
   * The follow-up's progress, with its place from its budget and its next poll from Temporal. Needs a running worker,
   * even for ended follow-ups.
   *
   * @throws WorkerUnavailableError
   */
  async progress(): Promise<LiveProgress> {
    return this.#call(() => readProgress(this.#client, this.workflowId));
  }

  /**
   * What blocks the follow-up, and how to fix it: the follow-up or its activity is paused in Temporal, its workflow
   * tasks fail, or no worker polls its task queue. `undefined` if nothing does. Needs no worker. See also
   * `BudgetHandle.trouble`.
   */
  async trouble(): Promise<WorkflowTrouble | undefined> {
    return readTrouble(this.#client, this.workflowId);
  }

  /** The follow-up in Temporal's own records. Needs no worker. */
  async describe(): Promise<FollowUpSummary> {
    const summary = toFollowUpSummary(await this.#call(() => this.#handle.describe()));
    if (summary) return summary;
    const message = `${this.workflowId} is not a follow-up`;
    throw new FollowUpFailedError(this.workflowId, 'Unexpected', message, { delivered: 'unknown' });
  }

  /** Both {@link describe} and {@link progress}, or why there is no progress. */
  async look(): Promise<FollowUpUpdate> {
    // The order matters: progress that is read after the end is final.
    const summary = await this.describe();
    const { result, silence } = await resultOf(() => this.progress());
    return { summary, ...defined({ progress: result, progressUnavailable: silence }) };
  }

  /**
   * Polls the follow-up and yields each change until the follow-up ends or `signal` is aborted. While no worker runs,
   * the updates say so.
   */
  watch(options: WatchOptions = {}): AsyncGenerator<FollowUpUpdate, void, undefined> {
    return watchChanges(options, {
      look: () => this.look(),
      outdated: ({ summary }, reason) => ({ summary, progressUnavailable: reason }),
      isLast: ({ summary }) => summary.status !== 'running',
    });
  }

  /**
   * Cancels the follow-up. Before the send nothing is sent; after it the agent job continues. {@link result} gives the
   * outcome.
   *
   * @throws RefusedError if it has ended
   */
  async cancel(): Promise<void> {
    // Temporal accepts a cancel of an ended workflow.
    if ((await this.describe()).status !== 'running') throw new RefusedError('FollowUpEnded', this.workflowId);
    await this.#message(() => this.#handle.cancel());
  }

  /**
   * Asks the follow-up to poll its job now.
   *
   * @throws RefusedError if it has ended
   */
  async pollNow(): Promise<void> {
    await this.#message(() => this.#handle.signal(pollNowSignal));
  }

  /**
   * Applies an operator's decision whether the message was delivered; accepted only while the follow-up is reconciling.
   *
   * @throws RefusedError if it is not reconciling, or has ended; WorkerUnavailableError
   */
  async resolve(decision: DeliveryDecision): Promise<void> {
    const send = () => this.#handle.executeUpdate(resolveDeliveryUpdate, { args: [decision] });
    try {
      await this.#message(() => sendUpdate(this.#client, this.#about, send));
    } catch (error) {
      if (!(error instanceof WorkflowUpdateFailedError)) throw error;
      const why = error.cause?.message ?? error.message;
      throw new RefusedError('ResolveRejected', this.workflowId, { why, cause: error });
    }
  }

  get #handle() {
    return this.#client.workflow.getHandle(this.workflowId);
  }

  get #about(): About {
    return { workflowId: this.workflowId, missing: ['FollowUpNotFound', this.workflowId] };
  }

  async #message(send: () => Promise<unknown>): Promise<void> {
    try {
      await this.#call(send);
    } catch (error) {
      if (!RefusedError.is(error, 'FollowUpNotFound')) throw error;
      // Temporal answers "not found" for ended workflows, too.
      await this.describe();
      throw new RefusedError('FollowUpEnded', this.workflowId, { cause: error.cause });
    }
  }

  async #call<T>(call: () => Promise<T>): Promise<T> {
    return callTemporal(this.#client, call, this.#about);
  }
}

/** Result of `FollowUpClient.start`. */
export class StartedFollowUp extends FollowUpHandle {
  /** Unique within the job; the same key is the same follow-up. */
  readonly key: string;
  /** Whether the key was used before: this is that follow-up, and nothing new was started. */
  readonly alreadyStarted: boolean;
  /** Whether the existing follow-up has a different input; `undefined` if that cannot be determined. */
  readonly inputDiffers: boolean | undefined;

  constructor(
    client: Client,
    workflowId: string,
    start: Pick<StartedFollowUp, 'key' | 'alreadyStarted' | 'inputDiffers'>,
  ) {
    super(client, workflowId);
    this.key = start.key;
    this.alreadyStarted = start.alreadyStarted;
    this.inputDiffers = start.inputDiffers;
  }
}

/**
 * Whether an existing workflow was started with other settings, comparing the meaning of durations and defaults.
 * `undefined` if unknown: its history is deleted, or this client's data converter cannot read it.
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
