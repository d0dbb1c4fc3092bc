import type { SendOutcome } from '../contract/index.js';
import {
  AUDIT_LENGTH,
  ESTIMATED_FROM,
  LONGEST_TEN_MS,
  MAX_UNSETTLED,
  MAX_UNTOLD,
  REUSE_ESTIMATE_MS,
  SEND_ESTIMATE_MS,
} from './limits.js';
import type { BudgetState, Grant } from './state.js';

/**
 * The time from which a grant's slot is held for window and margin. Bytes may arrive until lease and drain are over, so
 * only an answer of the service permits an earlier time.
 */
function heldFromMs(grant: Grant): number {
  const latestArrivalMs = grant.grantedAtMs + grant.leaseMs + grant.drainMs;
  if (grant.settledAtMs === undefined || grant.outcome === 'unknown') return latestArrivalMs;
  return Math.min(grant.settledAtMs, latestArrivalMs);
}

/**
 * Whether a send certainly was not delivered. These outcomes close the send number, and the follow-up asks with the
 * next one.
 */
export function isUndelivered(outcome: SendOutcome | undefined): boolean {
  return outcome === 'notSent' || outcome === 'limited' || outcome === 'unauthorized';
}

/** Messages per window: the budget's own limit, but at most the workers' ceiling. */
export function limitOf({ settings, ceiling }: Pick<BudgetState, 'settings' | 'ceiling'>): number {
  return Math.min(settings.limit, ceiling?.limit ?? Infinity);
}

/**
 * Ends of all slots that are occupied at `nowMs`, in no order. Computed each time, because limit and window may change.
 * If the ceiling has a longer window, a slot also counts as occupied while only the ceiling forbids a send.
 */
export function occupiedSlotEnds(state: BudgetState, nowMs: number): number[] {
  const ends = endsAfter(state, nowMs, state.settings.windowMs);
  const { ceiling } = state;
  if (!ceiling || ceiling.windowMs <= state.settings.windowMs) return ends;
  const limit = limitOf(state);
  const ceilingEnds = endsAfter(state, nowMs, ceiling.windowMs);
  const [free, freeByCeiling] = [limit - ends.length, ceiling.limit - ceilingEnds.length];
  if (freeByCeiling >= limit) return ends;
  // The send after `n` others may go when both windows have room for it.
  for (const each of [ends, ceilingEnds]) each.sort((a, b) => a - b);
  const freeByBoth = Math.min(free, freeByCeiling);
  return Array.from({ length: limit - freeByBoth }, (_, index) => {
    const n = freeByBoth + index;
    return Math.max(ends[n - free] ?? -Infinity, ceilingEnds[n - freeByCeiling] ?? -Infinity);
  });
}

/** Only `notSent`, which proves that no byte was written, frees a slot at once. */
function endsAfter(state: BudgetState, nowMs: number, windowMs: number): number[] {
  const heldMs = windowMs + state.settings.marginMs;
  return [
    ...state.grants.filter(({ outcome }) => outcome !== 'notSent').map((grant) => heldFromMs(grant) + heldMs),
    ...state.spent.map((fromMs) => fromMs + heldMs),
  ].filter((endMs) => endMs > nowMs);
}

/**
 * The slots among {@link occupiedSlotEnds} that are in use. Slots granted ahead, whose sends still wait for another
 * slot to end, are not.
 */
export function usedSlotEnds(state: BudgetState, nowMs: number): number[] {
  return occupiedSlotEnds({ ...state, grants: state.grants.filter((grant) => grant.grantedAtMs <= nowMs) }, nowMs);
}

/**
 * The earliest time from which a waiter may send although `ahead` others send before it. It is certain: a slot may end
 * earlier, but never later. A send that was granted ahead counts from its start, so there must be room at every later
 * time, too.
 *
 * @param slots.free the slots that are free for the waiter; negative if more are occupied than it may use. A slot that is
 *   granted ahead is not free
 * @param slots.ends the ends of all occupied slots, including those granted ahead
 */
export function certainSlotMs(
  state: BudgetState,
  nowMs: number,
  { free, ends }: { free: number; ends: readonly number[] },
  ahead: number,
): number | undefined {
  if (free > ahead) return nowMs;
  const changes: [atMs: number, change: 1 | -1][] = [
    ...ends.map((atMs): [number, 1] => [atMs, 1]),
    ...startsAhead(state, nowMs).map((atMs): [number, -1] => [atMs, -1]),
  ];
  // From the last to the first. Of those at the same time, the starts come first, because a send takes a slot that ends.
  changes.sort(([aMs, a], [bMs, b]) => bMs - aMs || a - b);
  let freeThen = free + ends.length;
  let earliestMs: number | undefined;
  for (const [atMs, change] of [...changes, [nowMs, 1] as const]) {
    if (freeThen <= ahead) break;
    earliestMs = atMs;
    freeThen -= change;
  }
  return earliestMs;
}

/** When the sends that were granted ahead start. */
function startsAhead({ grants }: BudgetState, nowMs: number): number[] {
  return grants
    .filter(({ grantedAtMs, outcome }) => grantedAtMs > nowMs && outcome !== 'notSent')
    .map(({ grantedAtMs }) => grantedAtMs);
}

/**
 * When each send of the last window was granted. Sends that were given back are left out, because nothing was sent. For
 * a send that is no longer kept in full, this is the time from which its slot is held.
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
 * Forecasts the ends of slots. The returned function takes how many more slots than are free now a waiter needs (0: the
 * next one that ends). It returns when the waiter may expect its slot, or `undefined` if none can ever become free.
 * Unsettled sends are expected to take as long as others; their actual end decides.
 */
export function forecastSlots(state: BudgetState, nowMs: number): (needed: number) => number | undefined {
  const limit = limitOf(state);
  if (limit <= 0) return () => undefined;
  // Computed only if somebody waits, which is not so after most events.
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

/** Ends of all slots in order, at least as many as the limit, and how long one send occupies a slot. */
function expectSlotEnds(state: BudgetState, nowMs: number): { cycleMs: number; ends: number[] } {
  const { cycleMs, ends } = expectOccupied(state, nowMs);
  // Slots that are free now go to the waiters ahead and end one cycle later.
  while (ends.length < limitOf(state)) ends.push(nowMs + cycleMs);
  ends.sort((a, b) => a - b);
  return { cycleMs, ends };
}

/** Ends of the occupied slots in order, and how long one send occupies a slot: in all, and after its end. */
export function expectOccupied(state: BudgetState, nowMs: number): { cycleMs: number; heldMs: number; ends: number[] } {
  const heldMs = state.settings.windowMs + state.settings.marginMs;
  const cycleMs = sendEstimateMs(state) + REUSE_ESTIMATE_MS + heldMs;
  const beingSent = new Set(unsettled(state, nowMs));
  const settled = occupiedSlotEnds({ ...state, grants: state.grants.filter((grant) => !beingSent.has(grant)) }, nowMs);
  const ends = [...settled, ...[...beingSent].map((grant) => grant.grantedAtMs + cycleMs)];
  return { cycleMs, heldMs, ends: ends.sort((a, b) => a - b) };
}

/** The mean time of the latest sends, from the grant to the end. */
export function sendEstimateMs(state: BudgetState): number {
  const tookMs = state.grants.flatMap(({ grantedAtMs, settledAtMs, outcome }) =>
    settledAtMs === undefined || outcome === 'unknown' ? [] : [settledAtMs - grantedAtMs],
  );
  const latest = tookMs.slice(-ESTIMATED_FROM);
  return latest.length === 0 ? SEND_ESTIMATE_MS : latest.reduce((sum, ms) => sum + ms, 0) / latest.length;
}

/** How long the latest {@link MAX_UNSETTLED} grants took; 0 if so long that there was not always somebody to grant to. */
export function lastTenTookMs({ grants }: BudgetState, nowMs: number): number {
  const tookMs = nowMs - (grants.at(-MAX_UNSETTLED)?.grantedAtMs ?? nowMs);
  return tookMs > 0 && tookMs <= LONGEST_TEN_MS ? tookMs : 0;
}

/**
 * Keeps only the last {@link AUDIT_LENGTH} grants, those that may still be settled, and the last {@link MAX_UNTOLD}
 * without an outcome, in full. Of the others it keeps only when their slots end.
 */
export function pruneGrants(state: BudgetState, nowMs: number): void {
  const auditFrom = state.grants.length - AUDIT_LENGTH;
  if (auditFrom <= 0) return;
  const untold = state.grants.filter(({ settledAtMs }) => settledAtMs === undefined);
  const keptUntold = new Set(untold.filter((grant) => nowMs < heldFromMs(grant)).concat(untold.slice(-MAX_UNTOLD)));
  const isKept = (grant: Grant, index: number) => index >= auditFrom || keptUntold.has(grant);
  const spent = state.grants.filter((grant, index) => !isKept(grant, index) && grant.outcome !== 'notSent');
  state.grants = state.grants.filter(isKept);
  const keptMs = longestHeldMs(state);
  state.spent = [...state.spent, ...spent.map(heldFromMs)].filter((fromMs) => fromMs + keptMs > nowMs);
}

/** How long a slot may be held: the longer of the budget's window and the ceiling's, plus the margin. */
export function longestHeldMs({ settings, ceiling }: BudgetState): number {
  return Math.max(settings.windowMs, ceiling?.windowMs ?? 0) + settings.marginMs;
}

/** The grant of a request, if it is still kept in full. */
export function findGrant(state: BudgetState, workflowId: string, sendNumber: number): Grant | undefined {
  return state.grants.find((each) => each.workflowId === workflowId && each.sendNumber === sendNumber);
}
