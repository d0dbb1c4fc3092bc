import { isDeepStrictEqual } from 'node:util';
import type { BudgetStatus } from '../contract/index.js';
import { TemporalUnreachableError, WorkerUnavailableError } from './errors.js';
import { pauseBetweenLooks, type WatchOptions } from './watch.js';

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
export interface WatchedBudget {
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
      update = await look(watched, last);
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

async function look(watched: WatchedBudget, last: BudgetUpdate | undefined): Promise<BudgetUpdate> {
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
