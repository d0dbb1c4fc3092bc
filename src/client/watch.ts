import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
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
export interface Watched {
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
      update = await look(watched);
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

async function look(watched: Watched): Promise<FollowUpUpdate> {
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
