import type { BudgetState } from './state.js';

/** Most characters of JSON in a state. Temporal refuses inputs above 2 MiB, and a codec may add a third. */
const MAX_CARRIED_LENGTH = 1_560_000;
/** Most follow-ups that a run passes on: 20 hours of sends. A tenth is far more than can be in progress. */
const KEPT_FOLLOW_UPS = 2_000;
/** Most jobs that a run passes on: a day of sends. */
const KEPT_JOBS = 3_000;

/** Makes a state small enough for continue-as-new. Forgets the oldest follow-ups and turns, first those that are over. */
export function trim(state: BudgetState): void {
  const isOver = (key: string) => state.turns[key]?.owner === undefined;
  const turns = Object.keys(state.turns);
  const oldestFirst = [...turns.filter(isOver), ...turns.filter((key) => !isOver(key))];
  for (let share = 1; share > 1 / 10; share *= 3 / 4) {
    forget(state.turns, oldestFirst.slice(0, -share * KEPT_JOBS));
    const forgotten = forget(state.latestSends, Object.keys(state.latestSends).slice(0, -share * KEPT_FOLLOW_UPS));
    // The clock of another of Temporal's hosts may be ahead.
    const grantedBefore = forgotten.map(({ grantedAtMs }) => grantedAtMs + state.settings.marginMs);
    state.rememberedSinceMs = Math.max(state.rememberedSinceMs, ...grantedBefore);
    if (JSON.stringify(state).length <= MAX_CARRIED_LENGTH) return;
  }
}

function forget<T>(record: Record<string, T>, keys: readonly string[]): T[] {
  return keys.flatMap((key) => {
    const forgotten = record[key];
    Reflect.deleteProperty(record, key);
    return forgotten === undefined ? [] : [forgotten];
  });
}
