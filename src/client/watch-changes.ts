import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { describeGrpcError } from '../temporal/grpc.js';
import { TemporalUnreachableError } from './client-errors.js';
import { isVagueTrouble } from './temporal.js';

/** Options of `watch`. */
export interface WatchOptions {
  /** Interval of polls. @default 1_000 */
  intervalMs?: number;
  /** Ends the watch without an error. */
  signal?: AbortSignal;
  /** Longest outage of Temporal before the watch ends with an error. @default 600_000 (10 min) */
  reconnectTimeoutMs?: number;
}

/** Polls, and yields each update that differs from the last. */
export async function* watchChanges<Update>(
  { intervalMs = 1_000, signal, reconnectTimeoutMs = 600_000 }: WatchOptions,
  {
    look,
    outdated,
    isLast,
  }: {
    look: (last: Update | undefined) => Promise<Update>;
    /** The last update, marked as outdated while Temporal is away. */
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
      const isAway = error instanceof TemporalUnreachableError;
      if (!isAway && !isVagueTrouble(error)) throw error;
      awaySinceMs ??= Date.now();
      // At the first poll there is nothing to keep: a wrong address should show at once.
      if (last === undefined || Date.now() - awaySinceMs >= reconnectTimeoutMs) throw error;
      update = outdated(last, isAway ? error.message : describeGrpcError(error));
    }
    if (!isDeepStrictEqual(update, last)) yield update;
    last = update;
    if (isLast(update)) return;
    await sleep(intervalMs, undefined, signal ? { signal } : {}).catch(() => undefined);
  }
}
