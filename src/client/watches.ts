import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { BudgetStatus } from '../contract/index.js';
import { TemporalUnreachableError, WorkerUnavailableError } from './errors.js';
import type { LiveProgress } from './live-progress.js';
import type { FollowUpSummary } from './summary.js';

/** One change that a watch saw. */
export interface FollowUpUpdate {
  summary: FollowUpSummary;
  /** Missing while no worker answers; then `progressUnavailable` says why. */
  progress?: LiveProgress;
  progressUnavailable?: string;
  /** Without progress: when something last happened, so that `summary` is as of then. ISO 8601 in UTC. */
  asOf?: string;
}

/** Options of `watch`. */
export interface WatchOptions {
  /** Time between two looks. @default 1_000 */
  intervalMs?: number;
  /** Ends the watch without an error. */
  signal?: AbortSignal;
  /** How long Temporal may be away in one piece before the watch ends with an error. @default 600_000 (10 min) */
  reconnectTimeoutMs?: number;
}

/** What a watch looks at. */
interface Watched {
  describe(): Promise<FollowUpSummary>;
  progress(): Promise<LiveProgress>;
  lastChangeAt(): Promise<string | undefined>;
}

/** See `FollowUpHandle.watch`. */
export async function* watchFollowUp(
  watched: Watched,
  { intervalMs = 1_000, signal, reconnectTimeoutMs = 600_000 }: WatchOptions,
): AsyncGenerator<FollowUpUpdate, void, undefined> {
  let last: FollowUpUpdate | undefined;
  let awaySinceMs: number | undefined;
  while (!signal?.aborted) {
    let update: FollowUpUpdate | undefined;
    try {
      update = await lookAtFollowUp(watched);
      awaySinceMs = undefined;
    } catch (error) {
      if (!(error instanceof TemporalUnreachableError)) throw error;
      awaySinceMs ??= Date.now();
      // At the first look there is nothing to hold on to: a wrong address should show at once.
      if (!last || Date.now() - awaySinceMs >= reconnectTimeoutMs) throw error;
      update = { summary: last.summary, progressUnavailable: error.message, ...(last.asOf && { asOf: last.asOf }) };
    }
    if (!isDeepStrictEqual(update, last)) yield update;
    last = update;
    if (update.summary.status !== 'running') return;
    await pauseBetweenLooks(intervalMs, signal);
  }
}

async function lookAtFollowUp(watched: Watched): Promise<FollowUpUpdate> {
  // The order matters: a progress asked for after the end was seen is the last there is.
  const summary = await watched.describe();
  return { summary, ...(await lookAtProgress(watched)) };
}

/** The progress, or why there is none, and since when nothing has happened. */
export async function lookAtProgress(
  watched: Pick<Watched, 'progress' | 'lastChangeAt'>,
): Promise<Omit<FollowUpUpdate, 'summary'>> {
  try {
    return { progress: await watched.progress() };
  } catch (error) {
    if (!(error instanceof WorkerUnavailableError)) throw error;
    const asOf = await watched.lastChangeAt();
    return { progressUnavailable: error.reason, ...(asOf !== undefined && { asOf }) };
  }
}

/** Waits until the next look is due, or `signal` is aborted. */
export async function pauseBetweenLooks(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(ms, undefined, signal ? { signal } : {});
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
}

/**
 * Whether a budget's workflow is there: `none` before the project's first follow-up, `stopped` after somebody terminated
 * it.
 */
export type BudgetExecutionState = 'none' | 'running' | 'stopped';

/** One change that a watch of a budget saw. */
export interface BudgetUpdate {
  state: BudgetExecutionState;
  /** The last one that is known; missing before the project's first follow-up. */
  status?: BudgetStatus;
  /** Why `status` is not of now. */
  statusUnavailable?: string;
}

/** What a watch of a budget looks at. */
interface WatchedBudget {
  state(): Promise<BudgetExecutionState>;
  status(): Promise<BudgetStatus | undefined>;
}

/** See `BudgetHandle.watch`. */
export async function* watchBudget(
  watched: WatchedBudget,
  { intervalMs = 1_000, signal, reconnectTimeoutMs = 600_000 }: WatchOptions,
): AsyncGenerator<BudgetUpdate, void, undefined> {
  let last: BudgetUpdate | undefined;
  let awaySinceMs: number | undefined;
  while (!signal?.aborted) {
    let update: BudgetUpdate;
    try {
      update = await lookAtBudget(watched, last);
      awaySinceMs = undefined;
    } catch (error) {
      if (!(error instanceof TemporalUnreachableError)) throw error;
      awaySinceMs ??= Date.now();
      // At the first look there is nothing to hold on to: a wrong address should show at once.
      if (!last || Date.now() - awaySinceMs >= reconnectTimeoutMs) throw error;
      update = { ...last, statusUnavailable: error.message };
    }
    if (!isDeepStrictEqual(update, last)) yield update;
    last = update;
    await pauseBetweenLooks(intervalMs, signal);
  }
}

async function lookAtBudget(watched: WatchedBudget, last: BudgetUpdate | undefined): Promise<BudgetUpdate> {
  const state = await watched.state();
  if (state === 'none') return { state };
  // A stopped one does not change, and each query of it replays its history.
  if (state === 'stopped' && last?.state === 'stopped' && last.statusUnavailable === undefined) return last;
  try {
    const status = await watched.status();
    return { state, ...(status && { status }) };
  } catch (error) {
    if (!(error instanceof WorkerUnavailableError)) throw error;
    return { state, ...(last?.status && { status: last.status }), statusUnavailable: error.reason };
  }
}
