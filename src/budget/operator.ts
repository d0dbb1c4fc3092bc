import type { InputIssue } from '../contract/index.js';
import { RECHECK_MS } from './limits.js';
import { longestHeldMs, occupiedSlotEnds } from './slots.js';
import type { BudgetState, OperatorPause } from './state.js';

/** New settings; what is missing stays. */
export interface LimitChange {
  limit?: number | undefined;
  windowMs?: number | undefined;
  reserve?: number | undefined;
}

/** The rule that a change would break, or `undefined`. */
export function limitChangeIssue(state: BudgetState, change: LimitChange): InputIssue | undefined {
  const { limit = state.settings.limit, reserve = state.settings.reserve } = change;
  const most = state.ceiling?.limit ?? state.settings.maxLimit ?? Infinity;
  if (change.limit !== undefined && limit > most) {
    return { field: 'limit', message: `must be at most ${most}, FOLLOW_UP_BUDGET_MAX_LIMIT of the workers` };
  }
  if (reserve === 0 || reserve < limit) return undefined;
  return { field: 'reserve', message: `must be below limit (limit ${limit}, reserve ${reserve})` };
}

/** Slot ends are computed from stored instants, so what is occupied follows at once; over-limit states drain. */
export function setLimit(state: BudgetState, change: LimitChange): void {
  const { limit, windowMs, reserve } = change;
  if (limit !== undefined || windowMs !== undefined) delete state.pace;
  state.settings = {
    ...state.settings,
    ...(limit !== undefined && { limit }),
    ...(windowMs !== undefined && { windowMs }),
    ...(reserve !== undefined && { reserve }),
  };
}

/** Orders of operators that are remembered. */
const MAX_ORDERS = 50;

/**
 * Whether an order has not been carried out yet. The server may apply an update again on the run that follows
 * (temporal#6375); a repeated `pause` must not undo the `resume` that came after it.
 *
 * @param id of the update
 */
export function takeOrder(state: BudgetState, id: string): boolean {
  if (state.orders.includes(id)) return false;
  state.orders = [...state.orders, id].slice(-MAX_ORDERS);
  return true;
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
  delete state.pace;
  delete state.keyRefused;
  if (state.pause) state.pause.untilMs = Math.min(state.pause.untilMs, nowMs);
}

/**
 * A budget that was stopped runs again. Whoever asked meanwhile was told to ask again in a minute, whatever the state says,
 * so every invitation is given anew and with a wake.
 */
export function reopen(state: BudgetState, nowMs: number): void {
  state.lastTimeMs = Math.max(state.lastTimeMs, nowMs);
  for (const waiter of state.waiters) {
    delete waiter.invitedAtMs;
    delete waiter.quietUntilMs;
    waiter.dueAtMs = state.lastTimeMs + RECHECK_MS;
  }
}

/**
 * A budget whose state is lost, as an operator says: every slot is spent, and every follow-up that began before may have been sent.
 *
 * @param inFlightUntilMs sends of the budget before may reach the service until then
 */
export function assumeFull(state: BudgetState, nowMs: number, inFlightUntilMs = nowMs): void {
  state.lastTimeMs = Math.max(state.lastTimeMs, nowMs);
  const spentFromMs = Math.max(state.lastTimeMs, inFlightUntilMs);
  state.spent = Array.from({ length: state.settings.limit }, () => spentFromMs);
  state.lostBeforeMs = state.lastTimeMs;
}

/**
 * A budget that has taken the place of one that was deleted: what that one sent may count in the service's window, so as
 * many slots as are free are spent.
 *
 * @param inFlightMs sends that the budget before granted may reach the service so long after this one began
 */
export function assumeFullUnasked(state: BudgetState, nowMs: number, inFlightMs: number): void {
  if (state.assumedFullFromMs !== undefined) return;
  state.assumedFullFromMs = state.ledgerSinceMs + inFlightMs;
  if (state.assumedFullFromMs + longestHeldMs(state) <= nowMs) return;
  // Of the whole limit: the ceiling of the next worker may be higher.
  const free = Math.max(0, state.settings.limit - occupiedSlotEnds(state, nowMs).length);
  for (let slot = 0; slot < free; slot++) state.spent.push(state.assumedFullFromMs);
}
