import { type BudgetState, MIN_LAST_SENDS } from './state.js';

/** Most characters of JSON in a state. Temporal refuses inputs above 2 MiB, and warns above 512 KiB. */
const MAX_CARRIED_LENGTH = 1_045_000;
/** Most follow-ups that a run passes on: 20 hours of sends. 200 are far more than can be in progress. */
const KEPT_FOLLOW_UPS = [2_000, 1_500, 1_000, 500, 200];
/** Most freed slots in a state that is too long: the highest limit may be twice that. */
const KEPT_FREED = 5_000;
/** Most jobs that a run passes on: a day of sends. */
const KEPT_JOBS = [3_000, 2_500, 2_000, 1_500, 1_000, 500];

/** Makes a state small enough for continue-as-new. Forgets the oldest ended turns, then follow-ups, then turns. */
export function trim(state: BudgetState): void {
  const isTooLong = () => JSON.stringify(state).length > MAX_CARRIED_LENGTH;
  if (isTooLong()) {
    state.lastSends = state.lastSends.slice(-MIN_LAST_SENDS);
    state.freed = state.freed.slice(-KEPT_FREED);
    state.spent.push(...Object.values(state.unreported));
    state.unreported = {};
  }
  const isOver = (key: string) => state.turns[key]?.owner === undefined;
  const turns = Object.keys(state.turns);
  const over = turns.filter(isOver);
  const live = turns.filter((key) => !isOver(key));
  for (const kept of KEPT_FOLLOW_UPS) {
    forget(state.turns, over.slice(0, -kept / 4));
    const forgotten = forget(state.latestSends, Object.keys(state.latestSends).slice(0, -kept));
    // The clock of another of Temporal's hosts may be ahead.
    const grantedBefore = forgotten.map(({ grantedAtMs }) => grantedAtMs + state.settings.marginMs);
    state.rememberedSinceMs = Math.max(state.rememberedSinceMs, ...grantedBefore);
    if (!isTooLong()) break;
  }
  for (const kept of KEPT_JOBS) {
    forget(state.turns, [...over, ...live].slice(0, -kept));
    if (!isTooLong()) return;
  }
}

function forget<T>(record: Record<string, T>, keys: readonly string[]): T[] {
  return keys.flatMap((key) => {
    const forgotten = record[key];
    Reflect.deleteProperty(record, key);
    return forgotten === undefined ? [] : [forgotten];
  });
}
