import type { BudgetState, Waiter } from './state.js';
import { INVITATION_GRACE_MS, MAX_UNSETTLED, OLDEST_FIRST_EVERY } from './limits.js';
import { limitOf, unsettled } from './slots.js';

/** Whether an invitation was not answered in time: such a waiter keeps its place and counts for nothing. */
export function hasLapsed(waiter: Waiter, nowMs: number): boolean {
  return waiter.invitedAtMs !== undefined && nowMs > waiter.invitedAtMs + INVITATION_GRACE_MS;
}

/** Whether somebody else has the job's turn. */
export function isJobBusy(state: BudgetState, waiter: Pick<Waiter, 'jobId' | 'workflowId'>): boolean {
  const turn = state.turns.get(waiter.jobId);
  return turn !== undefined && turn.workflowId !== waiter.workflowId;
}

/**
 * The eligible waiters in the order of their turns: the job is free or the turn is the waiter's own, and it is the
 * first of its job that has not lapsed (a lapsed waiter holds up nobody, not even its own job). Interactive before
 * batch, then by first ask; every tenth grant goes to the oldest of any lane.
 */
export function eligibleLine(state: BudgetState, nowMs: number): Waiter[] {
  const oldestFirst = state.grantCount % OLDEST_FIRST_EVERY === OLDEST_FIRST_EVERY - 1;
  const ordered = state.waiters
    .filter((waiter) => !waiter.hold)
    .sort((a, b) => (oldestFirst ? 0 : laneRank(a) - laneRank(b)) || a.arrival - b.arrival);
  const jobsTaken = new Set<string>();
  return ordered.filter((waiter) => {
    if (isJobBusy(state, waiter) || jobsTaken.has(waiter.jobId)) return false;
    if (!hasLapsed(waiter, nowMs)) jobsTaken.add(waiter.jobId);
    return true;
  });
}

/** Slots that are free for a lane; negative where the limit was lowered below what is occupied. */
export function freeSlots(state: BudgetState, usedSlots: number, waiter: Pick<Waiter, 'lane'>): number {
  const reserve = waiter.lane === 'batch' ? state.settings.reserve : 0;
  return limitOf(state) - usedSlots - reserve;
}

/** Sends that may still be begun before the cap of unsettled ones is reached. */
export function startableSends(state: BudgetState, nowMs: number): number {
  return MAX_UNSETTLED - unsettled(state, nowMs).length;
}

function laneRank(waiter: Waiter): number {
  return waiter.lane === 'interactive' ? 0 : 1;
}
