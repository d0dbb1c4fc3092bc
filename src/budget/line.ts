import { lanes } from '../contract/index.js';
import {
  BATCH_TURN_EVERY,
  GRANT_AHEAD_MS,
  INVITATION_GRACE_MS,
  LATEST_ANSWER_SHARE,
  LONGEST_GRACE_MS,
  REPORTS_APART_MS,
} from './limits.js';
import { sendsAtOnce } from './pause.js';
import { expectOccupied, limitOf, unsettled } from './slots.js';
import type { BudgetState, Grant, Waiter } from './state.js';

/** How long an invited waiter has to ask. */
export function invitationGraceMs({ answersInMs = 0 }: BudgetState): number {
  return Math.min(Math.max(INVITATION_GRACE_MS, 2 * answersInMs), LONGEST_GRACE_MS);
}

/** Learns from an ask how long waiters take to answer an invitation. */
export function noteAnswer(state: BudgetState, nowMs: number, { invitedAtMs }: Waiter): void {
  if (invitedAtMs === undefined) return;
  // One that was away for an hour says little about the others.
  const tookMs = Math.min(Math.max(0, nowMs - invitedAtMs), LONGEST_GRACE_MS);
  const { answersInMs = Math.min(tookMs, INVITATION_GRACE_MS) } = state;
  state.answersInMs = Math.round(answersInMs + (tookMs - answersInMs) * LATEST_ANSWER_SHARE);
}

/** Whether the waiter's invitation was not answered in time. Such a waiter keeps its place but does not count. */
export function hasLapsed(state: BudgetState, { invitedAtMs }: Waiter, nowMs: number): boolean {
  return invitedAtMs !== undefined && nowMs > invitedAtMs + invitationGraceMs(state);
}

/** Whether somebody else has the job's turn. */
export function isJobBusy(state: BudgetState, waiter: Pick<Waiter, 'jobId' | 'workflowId'>): boolean {
  const turn = state.turns.get(waiter.jobId);
  return turn !== undefined && turn.workflowId !== waiter.workflowId;
}

/**
 * The eligible waiters in the order of their turns. A waiter is eligible if the job is free or the turn is its own, and
 * it is the first of its job that has not lapsed (a lapsed waiter holds up nobody, not even its own job). Interactive
 * comes before batch, then the first ask decides. A batch waiter that nine interactive ones in a row have overtaken
 * comes first.
 *
 * Invariant: nobody stands before a waiter that needs fewer free slots, so an invited waiter is granted when it asks,
 * unless too many sends are in flight.
 */
export function eligibleLine(state: BudgetState, nowMs: number): Waiter[] {
  const jobsTaken = new Set<string>();
  const line: Waiter[] = [];
  for (const lane of lanes) {
    for (const waiter of state.waiters) {
      if (waiter.lane !== lane || waiter.hold || isJobBusy(state, waiter) || jobsTaken.has(waiter.jobId)) continue;
      if (!hasLapsed(state, waiter, nowMs)) jobsTaken.add(waiter.jobId);
      line.push(waiter);
    }
  }
  if (state.overtakenCount < BATCH_TURN_EVERY - 1) return line;
  const first = line.find((waiter) => !hasLapsed(state, waiter, nowMs));
  const next = first && overtakenBy(state, nowMs, { waiter: first, line });
  return next ? [next, ...line.filter((waiter) => waiter !== next)] : line;
}

/** The oldest batch waiter that would be overtaken if `waiter` were granted. */
function overtakenBy(
  state: BudgetState,
  nowMs: number,
  { waiter, line }: { waiter: Waiter; line: readonly Waiter[] },
): Waiter | undefined {
  if (waiter.lane !== 'interactive') return undefined;
  return line.find((each) => each.lane === 'batch' && each.arrival < waiter.arrival && !hasLapsed(state, each, nowMs));
}

/** Counts the interactive grants in a row that overtook a batch waiter. Called with the line before the grant. */
export function countOvertaken(
  state: BudgetState,
  nowMs: number,
  { granted, line }: { granted: Waiter; line: readonly Waiter[] },
): void {
  if (granted.lane === 'batch') state.overtakenCount = 0;
  else if (overtakenBy(state, nowMs, { waiter: granted, line })) state.overtakenCount += 1;
}

/**
 * Slots that are free for a waiter of the line; negative if the limit was lowered below what is occupied. A batch
 * waiter before an interactive one has been overtaken too often, and the reserve does not apply to it. Otherwise it
 * would never be sent while interactive ones use up all other slots.
 */
export function freeSlots(
  state: BudgetState,
  usedSlots: number,
  { waiter, line }: { waiter: Waiter; line: readonly Waiter[] },
): number {
  const { reserve } = state.settings;
  const hasTurn = waiter === line[0] && line[1]?.lane === 'interactive';
  return limitOf(state) - usedSlots - (waiter.lane === 'batch' && !hasTurn ? reserve : 0);
}

/** How many more sends may start before too many are unsettled. */
export function startableSends(state: BudgetState, nowMs: number): number {
  return sendsAtOnce(state) - unsettled(state, nowMs).length;
}

/**
 * Marks the granted sends whose ends the budget needs to know at once. It hears of the other ends within
 * {@link REPORTS_APART_MS}.
 *
 * @param granted unsettled, in the order in which they were granted
 */
export function awaitEnds(state: BudgetState, nowMs: number, granted: readonly Grant[]): void {
  // Most asks are told to wait.
  if (granted.length === 0) return;
  let missing = missingEnds(state, nowMs);
  for (const grant of granted) {
    if (missing <= 0 || grant.isAwaited) continue;
    grant.isAwaited = true;
    missing -= 1;
  }
}

/**
 * How many more ends of sends in flight the budget needs to know at once. It needs one for each send that has a slot, or
 * gets one before the budget hears of the ends anyway, but may not start yet. There are no more such sends than waiters,
 * unless few more sends may start.
 */
function missingEnds(state: BudgetState, nowMs: number): number {
  const inFlight = unsettled(state, nowMs);
  const startable = startableSends(state, nowMs);
  // If few more sends may start, a follow-up that comes later may need an end, too.
  const wanted = inFlight.length > startable ? Infinity : state.waiters.length;
  const toldWithinMs = REPORTS_APART_MS + GRANT_AHEAD_MS;
  const { ends, heldMs, cycleMs } = expectOccupied(state, nowMs);
  // The end of a probe may end the pause, and a short window may be over before an end is told.
  if (state.pause || (heldMs < toldWithinMs && wanted > 0)) return inFlight.length;
  const freeSoon = limitOf(state) - ends.filter((endMs) => endMs > nowMs + cycleMs - heldMs + toldWithinMs).length;
  return Math.min(wanted, freeSoon) - startable - inFlight.filter(({ isAwaited }) => isAwaited).length;
}
