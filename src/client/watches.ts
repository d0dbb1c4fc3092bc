import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { defined } from '../contract/defined.js';
import type { BudgetStatus } from '../contract/index.js';
import { TemporalUnreachableError, WorkerUnavailableError } from './errors.js';
import type { LiveProgress } from './live-progress.js';
import type { FollowUpSummary } from './summary.js';

/** Options of `watch`. */
export interface WatchOptions {
  /** Time between two looks. @default 1_000 */
  intervalMs?: number;
  /** Ends the watch without an error. */
  signal?: AbortSignal;
  /**
   * How long Temporal may be unreachable in one stretch before the watch ends with an error. @default 600_000 (10 min)
   */
  reconnectTimeoutMs?: number;
}

/** One change that a watch of a follow-up saw. */
export interface FollowUpUpdate {
  summary: FollowUpSummary;
  /** Missing while no worker answers; then `progressUnavailable` says why. */
  progress?: LiveProgress;
  progressUnavailable?: string;
  /** Without progress: when something last happened, so that `summary` is as of then. ISO 8601 in UTC. */
  asOf?: string;
}

/** What a watch of a follow-up looks at. */
interface Watched {
  describe(): Promise<FollowUpSummary>;
  progress(): Promise<LiveProgress>;
  lastChangeAt(): Promise<string | undefined>;
}

/** See `FollowUpHandle.watch`. */
export function watchFollowUp(
  watched: Watched,
  options: WatchOptions,
): AsyncGenerator<FollowUpUpdate, void, undefined> {
  return watchChanges(options, {
    // The order matters: a progress asked for after the end was seen is the last there is.
    look: async () => {
      const summary = await watched.describe();
      return { summary, ...(await lookAtProgress(watched)) };
    },
    outdated: ({ summary, asOf }, reason) => ({ summary, progressUnavailable: reason, ...defined({ asOf }) }),
    isLast: ({ summary }) => summary.status !== 'running',
  });
}

/** The progress, or why there is none, and since when nothing has happened. */
export async function lookAtProgress(
  watched: Pick<Watched, 'progress' | 'lastChangeAt'>,
): Promise<Omit<FollowUpUpdate, 'summary'>> {
  try {
    return { progress: await watched.progress() };
  } catch (error) {
    if (!(error instanceof WorkerUnavailableError)) throw error;
    return { progressUnavailable: error.reason, ...defined({ asOf: await watched.lastChangeAt() }) };
  }
}

/**
 * Whether a budget's workflow exists and runs: `none` before the project's first follow-up, `stopped` after somebody
 * terminated it.
 */
export type BudgetExecutionState = 'none' | 'running' | 'stopped';

/** One change that a watch of a budget saw. */
export interface BudgetUpdate {
  state: BudgetExecutionState;
  /** The last known status; missing before the project's first follow-up. */
  status?: BudgetStatus;
  /** Why `status` is out of date. */
  statusUnavailable?: string;
}

/** What a watch of a budget looks at. */
interface WatchedBudget {
  state(): Promise<BudgetExecutionState>;
  status(): Promise<BudgetStatus | undefined>;
}

/** See `BudgetHandle.watch`. */
export function watchBudget(
  watched: WatchedBudget,
  options: WatchOptions,
): AsyncGenerator<BudgetUpdate, void, undefined> {
  return watchChanges(options, {
    look: (last) => lookAtBudget(watched, last),
    outdated: (last, reason) => ({ ...last, statusUnavailable: reason }),
    isLast: () => false,
  });
}

async function lookAtBudget(watched: WatchedBudget, last: BudgetUpdate | undefined): Promise<BudgetUpdate> {
  const state = await watched.state();
  if (state === 'none') return { state };
  // A stopped budget does not change, and each query of it replays its history.
  if (state === 'stopped' && last?.state === 'stopped' && last.statusUnavailable === undefined) return last;
  try {
    return { state, ...defined({ status: await watched.status() }) };
  } catch (error) {
    if (!(error instanceof WorkerUnavailableError)) throw error;
    return { state, ...defined({ status: last?.status }), statusUnavailable: error.reason };
  }
}

/** Looks again and again, and yields each update that differs from the last one. */
async function* watchChanges<Update>(
  { intervalMs = 1_000, signal, reconnectTimeoutMs = 600_000 }: WatchOptions,
  {
    look,
    outdated,
    isLast,
  }: {
    look: (last: Update | undefined) => Promise<Update>;
    /** The last update, marked as out of date while Temporal is away. */
    outdated: (last: Update, reason: string) => Update;
    isLast: (update: Update) => boolean;
  },
): AsyncGenerator<Update, void, undefined> {
  let last: Update | undefined;
  let awaySinceMs: number | undefined;
  while (!signal?.aborted) {
    let update: Update;
    try {
      update = await look(last);
      awaySinceMs = undefined;
    } catch (error) {
      if (!(error instanceof TemporalUnreachableError)) throw error;
      awaySinceMs ??= Date.now();
      // At the first look there is nothing to hold on to: a wrong address should show at once.
      if (last === undefined || Date.now() - awaySinceMs >= reconnectTimeoutMs) throw error;
      update = outdated(last, error.message);
    }
    if (!isDeepStrictEqual(update, last)) yield update;
    last = update;
    if (isLast(update)) return;
    await pauseBetweenLooks(intervalMs, signal);
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
