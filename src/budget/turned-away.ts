import type { Ask } from '../protocol/index.js';
import { type BudgetState, type InJobLine, jobKey, jobLineOf, type TurnedAway } from './state.js';

// Follow-ups that found no place for their job are called back, the oldest first, when there is one.

/** How long a follow-up that is called back stays ahead of later ones. */
const CALL_BACK_MS = 60_000;
/** So many follow-ups without a place for their job are called back when there is one. The others ask by themselves. */
const MAX_TURNED_AWAY = 200;

export function turnAway({ turnedAway }: BudgetState, { workflowId, lane, startedAtMs }: Ask): void {
  turnedAway.push({ workflowId, job: jobKey(workflowId), lane, startedAtMs });
  turnedAway.sort((a, b) => a.startedAtMs - b.startedAtMs).splice(MAX_TURNED_AWAY);
}

export function forgetTurnedAway(state: BudgetState, workflowId: string): void {
  state.turnedAway = state.turnedAway.filter((each) => each.workflowId !== workflowId);
}

/**
 * Calls back those for whose job there is a place now. Returns who is to ask again.
 *
 * @param places for one job and lane
 */
export function callBack(state: BudgetState, places: number, nowMs: number): string[] {
  if (state.turnedAway.length === 0) return [];
  state.turnedAway = state.turnedAway.filter((each) => isExpected(each, nowMs));
  const sizes = new Map<string, number>();
  const sizeOf = (each: InJobLine) => sizes.get(jobLineOf(each)) ?? 0;
  const add = (each: InJobLine) => void sizes.set(jobLineOf(each), sizeOf(each) + 1);
  for (const each of [...state.waiters, ...state.turnedAway.filter(({ calledAtMs }) => calledAtMs)]) add(each);
  return state.turnedAway.flatMap((each) => {
    if (each.calledAtMs || sizeOf(each) >= places) return [];
    each.calledAtMs = nowMs;
    add(each);
    return [each.workflowId];
  });
}

/** Whether a follow-up without a place stays ahead of later ones: until it has had the time to come back. */
export function isExpected({ calledAtMs }: TurnedAway, nowMs: number): boolean {
  return calledAtMs === undefined || nowMs - calledAtMs < CALL_BACK_MS;
}
