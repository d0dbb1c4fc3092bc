import type { BudgetState, Grant } from './state.js';
import { AUDIT_LENGTH, SEND_ESTIMATE_MS } from './limits.js';

/**
 * The instant at which a grant's slot ends. Bytes may arrive until lease and drain are over, so only an answer of the
 * service permits an earlier end, and only `notSent` (no byte was written) frees the slot at once.
 */
export function slotEndMs(state: BudgetState, grant: Grant): number {
  if (grant.outcome === 'notSent') return -Infinity;
  const heldMs = state.settings.windowMs + state.settings.marginMs;
  const latestArrivalMs = grant.grantedAtMs + grant.leaseMs + grant.drainMs;
  if (grant.settledAtMs === undefined || grant.outcome === 'unknown') return latestArrivalMs + heldMs;
  return Math.min(grant.settledAtMs, latestArrivalMs) + heldMs;
}

/** Grants whose slots are occupied at `nowMs`. */
export function occupied(state: BudgetState, nowMs: number): Grant[] {
  return state.grants.filter((grant) => slotEndMs(state, grant) > nowMs);
}

/** Grants that are neither settled nor past their lease. */
export function unsettled(state: BudgetState, nowMs: number): Grant[] {
  return state.grants.filter((grant) => grant.settledAtMs === undefined && nowMs < grant.grantedAtMs + grant.leaseMs);
}

/**
 * Forecasts the ends of slots. The answer takes how many more slots than are free now a waiter needs (0: the next one
 * that ends) and gives the instant at which it may expect its slot, or `undefined` where none can ever come free. A send
 * that is not settled yet is expected to end like any other; its true end decides.
 */
export function forecastSlots(state: BudgetState, nowMs: number): (needed: number) => number | undefined {
  const { limit, windowMs, marginMs } = state.settings;
  if (limit <= 0) return () => undefined;
  const cycleMs = SEND_ESTIMATE_MS + windowMs + marginMs;
  const ends = occupied(state, nowMs).map((grant) =>
    grant.settledAtMs === undefined ? grant.grantedAtMs + cycleMs : slotEndMs(state, grant),
  );
  // Slots that are free now go to the waiters ahead, and end one cycle later.
  while (ends.length < limit) ends.push(nowMs + cycleMs);
  ends.sort((a, b) => a - b);
  return (needed) => {
    const index = Math.max(0, needed);
    const first = ends[index];
    if (first !== undefined) return Math.max(nowMs, first);
    const beyond = index - ends.length;
    const base = ends[ends.length - limit + (beyond % limit)] ?? nowMs;
    return Math.max(nowMs, base) + (1 + Math.floor(beyond / limit)) * cycleMs;
  };
}

/** Forgets grants whose slots have ended, but for the last {@link AUDIT_LENGTH}. */
export function pruneGrants(state: BudgetState, nowMs: number): void {
  if (state.grants.length <= AUDIT_LENGTH) return;
  const auditFrom = state.grants.length - AUDIT_LENGTH;
  state.grants = state.grants.filter((grant, index) => index >= auditFrom || slotEndMs(state, grant) > nowMs);
}
