import type { BudgetState, OperatorPause } from './state.js';

/** New settings; what is missing stays. */
export interface LimitChange {
  limit?: number | undefined;
  windowMs?: number | undefined;
  reserve?: number | undefined;
}

/** The rule that a change would break, or `undefined`. */
export function limitChangeIssue(state: BudgetState, change: LimitChange): string | undefined {
  const { limit = state.settings.limit, reserve = state.settings.reserve } = change;
  if (reserve === 0 || reserve < limit) return undefined;
  return `reserve must be below limit (limit ${limit}, reserve ${reserve})`;
}

/** Slot ends are computed from stored instants, so what is occupied follows at once; over-limit states drain. */
export function setLimit(state: BudgetState, change: LimitChange): void {
  const { limit, windowMs, reserve } = change;
  state.settings = {
    ...state.settings,
    ...(limit !== undefined && { limit }),
    ...(windowMs !== undefined && { windowMs }),
    ...(reserve !== undefined && { reserve }),
  };
}

/** Whether an operator lets nothing through, not even a probe. */
export function isPausedByOperator(state: BudgetState, nowMs: number): boolean {
  return state.operatorPause !== undefined && nowMs < (state.operatorPause.untilMs ?? Infinity);
}

/** Lets nothing through. */
export function pause(state: BudgetState, operatorPause: OperatorPause): void {
  state.operatorPause = operatorPause;
}

/** Ends the operator's pause, and the wait of the service's: the next asker is its probe. */
export function resume(state: BudgetState, nowMs: number): void {
  delete state.operatorPause;
  if (state.pause) state.pause.untilMs = Math.min(state.pause.untilMs, nowMs);
}

/** A gate whose state is lost: every slot is spent now, and every follow-up that began before may have been sent. */
export function assumeFull(state: BudgetState, nowMs: number): void {
  state.lastTimeMs = Math.max(state.lastTimeMs, nowMs);
  state.spent = Array.from({ length: state.settings.limit }, () => state.lastTimeMs);
  state.memorySinceMs = state.lastTimeMs;
}
