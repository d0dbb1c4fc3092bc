import type { SendOutcome } from '../contract/index.js';
import { AUDIT_LENGTH, ESTIMATED_FROM, REUSE_ESTIMATE_MS, SEND_ESTIMATE_MS } from './limits.js';
import { pacedMs } from './pace.js';
import type { BudgetState, Grant } from './state.js';

/**
 * From when a grant's slot is held for window and margin. Bytes may arrive until lease and drain are over, so only an
 * answer of the service permits an earlier instant.
 */
function heldFromMs(grant: Grant): number {
  const latestArrivalMs = grant.grantedAtMs + grant.leaseMs + grant.drainMs;
  if (grant.settledAtMs === undefined || grant.outcome === 'unknown') return latestArrivalMs;
  return Math.min(grant.settledAtMs, latestArrivalMs);
}

/** Whether a send certainly was not delivered. These outcomes close the send number; the follow-up asks with the next. */
export function isUndelivered(outcome: SendOutcome | undefined): boolean {
  return outcome === 'notSent' || outcome === 'limited' || outcome === 'unauthorized';
}

/** The instant at which a grant's slot ends. Only `notSent`, proof that no byte was written, frees it at once. */
export function slotEndMs(state: BudgetState, grant: Grant): number {
  return grant.outcome === 'notSent' ? -Infinity : heldFromMs(grant) + heldMs(state);
}

/** Ends of all slots that are occupied at `nowMs`, in no order. Computed anew: limit and window may change live. */
export function occupiedSlotEnds(state: BudgetState, nowMs: number): number[] {
  return [
    ...state.grants.map((grant) => slotEndMs(state, grant)),
    ...state.spent.map((fromMs) => fromMs + heldMs(state)),
  ].filter((endMs) => endMs > nowMs);
}

/**
 * The slots among {@link occupiedSlotEnds} that are in use: not those granted ahead, whose send still waits for another
 * slot to end.
 */
export function usedSlotEnds(state: BudgetState, nowMs: number): number[] {
  return occupiedSlotEnds({ ...state, grants: state.grants.filter((grant) => grant.grantedAtMs <= nowMs) }, nowMs);
}

/**
 * The instant from which somebody may send who needs that many more slots than are free now (0: the next one that ends),
 * as far as it is certain: a slot may still end earlier, never later.
 */
export function certainSlotMs(slotEnds: readonly number[], needed: number): number | undefined {
  return [...slotEnds].sort((a, b) => a - b)[needed];
}

/**
 * When each send of the last window was granted, but for those that were given back: nothing of them was sent. Of a send
 * that is not kept in full only the instant is known from which its slot is held.
 */
export function sendsOfLastWindow(state: BudgetState, nowMs: number): number[] {
  const grantedAtMs = state.grants.filter(({ outcome }) => outcome !== 'notSent').map((grant) => grant.grantedAtMs);
  return [...grantedAtMs, ...state.spent].filter((atMs) => atMs > nowMs - state.settings.windowMs);
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
  const { limit } = state.settings;
  if (limit <= 0) return () => undefined;
  // Only where somebody waits: after most events nobody asks.
  let expected: { cycleMs: number; ends: number[] } | undefined;
  return (needed) => {
    expected ??= expectSlotEnds(state, nowMs);
    const { cycleMs, ends } = expected;
    const index = Math.max(0, Math.floor(needed));
    const first = ends[index];
    if (first !== undefined) return Math.max(nowMs, first);
    const beyond = index - ends.length;
    const base = ends[ends.length - limit + (beyond % limit)] ?? nowMs;
    return Math.max(nowMs, base) + (1 + Math.floor(beyond / limit)) * cycleMs;
  };
}

/** When somebody may expect its slot who has so many others before it, while so many slots are free. */
export function expectSlot(state: BudgetState, nowMs: number): (ahead: number, free: number) => number | undefined {
  const forecast = forecastSlots(state, nowMs);
  return (ahead, free) => {
    const slotAtMs = forecast(ahead - free);
    return slotAtMs === undefined ? undefined : Math.max(slotAtMs, pacedMs(state, ahead));
  };
}

/** Ends of all slots, in order, as many as the limit or more; and how long a slot is taken each time. */
function expectSlotEnds(state: BudgetState, nowMs: number): { cycleMs: number; ends: number[] } {
  const cycleMs = sendEstimateMs(state) + REUSE_ESTIMATE_MS + heldMs(state);
  const beingSent = new Set(unsettled(state, nowMs));
  const settled = occupiedSlotEnds({ ...state, grants: state.grants.filter((grant) => !beingSent.has(grant)) }, nowMs);
  const ends = [...settled, ...[...beingSent].map((grant) => grant.grantedAtMs + cycleMs)];
  // Slots that are free now go to the waiters ahead, and end one cycle later.
  while (ends.length < state.settings.limit) ends.push(nowMs + cycleMs);
  ends.sort((a, b) => a - b);
  return { cycleMs, ends };
}

/** What sends took lately: from the grant to the settle. */
export function sendEstimateMs(state: BudgetState): number {
  const tookMs = state.grants.flatMap(({ grantedAtMs, settledAtMs, outcome }) =>
    settledAtMs === undefined || outcome === 'unknown' ? [] : [settledAtMs - grantedAtMs],
  );
  const latest = tookMs.slice(-ESTIMATED_FROM);
  return latest.length === 0 ? SEND_ESTIMATE_MS : latest.reduce((sum, ms) => sum + ms, 0) / latest.length;
}

/**
 * Keeps whole only the last {@link AUDIT_LENGTH} grants and those that may still be settled; of the others nothing but
 * when their slots end.
 */
export function pruneGrants(state: BudgetState, nowMs: number): void {
  const auditFrom = state.grants.length - AUDIT_LENGTH;
  if (auditFrom <= 0) return;
  const isKept = (grant: Grant, index: number) =>
    index >= auditFrom || (grant.settledAtMs === undefined && nowMs < heldFromMs(grant));
  const spent = state.grants.filter((grant, index) => !isKept(grant, index) && grant.outcome !== 'notSent');
  state.grants = state.grants.filter(isKept);
  state.spent = [...state.spent, ...spent.map(heldFromMs)].filter((fromMs) => fromMs + heldMs(state) > nowMs);
}

function heldMs({ settings }: BudgetState): number {
  return settings.windowMs + settings.marginMs;
}

/** The grant of a request, where it is still kept. */
export function findGrant(state: BudgetState, workflowId: string, sendNumber: number): Grant | undefined {
  return state.grants.find((each) => each.workflowId === workflowId && each.sendNumber === sendNumber);
}
