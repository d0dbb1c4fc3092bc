import { defined } from '../contract/defined.js';
import type { InputIssue } from '../contract/index.js';
import { RECHECK_MS } from './limits.js';
import { longestHeldMs, occupiedSlotEnds } from './slots.js';
import type { BudgetState, OperatorPause } from './state.js';

/** New settings. Fields that are left out stay as they are. */
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

/** Slot ends are computed from stored times, so the change applies at once. A budget over its new limit drains. */
export function setLimit(state: BudgetState, change: LimitChange): void {
  const { limit, windowMs, reserve } = change;
  if (limit !== undefined || windowMs !== undefined) delete state.pace;
  state.settings = {
    ...state.settings,
    ...defined({ limit, windowMs, reserve }),
  };
}

/** Number of operators' orders that are remembered. */
const MAX_ORDERS = 50;

/**
 * Whether an order has not been carried out yet. The server may apply an update again on the next run (temporal#6375),
 * and a repeated `pause` must not undo the `resume` that came after it.
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

export function pause(state: BudgetState, operatorPause: OperatorPause): void {
  state.operatorPause = operatorPause;
}

/** Ends the operator's pause, and the wait of the service's pause: the next ask is its probe. */
export function resume(state: BudgetState, nowMs: number): void {
  delete state.operatorPause;
  delete state.pace;
  delete state.keyRefused;
  if (state.pause) state.pause.untilMs = Math.min(state.pause.untilMs, nowMs);
}

/**
 * Restarts a budget that was stopped. Follow-ups that asked in the meantime were told to ask again in a minute,
 * whatever the state says. So every invitation is given again, with a wake.
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
 * Starts a budget whose predecessor's state is lost, as an operator says: every slot is used, and every follow-up that
 * began before may have been sent.
 *
 * @param inFlightUntilMs until when sends of the previous budget may reach the service
 */
export function assumeFull(state: BudgetState, nowMs: number, inFlightUntilMs = nowMs): void {
  state.lastTimeMs = Math.max(state.lastTimeMs, nowMs);
  const spentFromMs = Math.max(state.lastTimeMs, inFlightUntilMs);
  state.spent = Array.from({ length: state.settings.limit }, () => spentFromMs);
  state.lostBeforeMs = state.lastTimeMs;
}

/**
 * Notes that this budget replaces one that was deleted. What that one sent may count in the service's window, so all
 * free slots become used.
 *
 * @param inFlightMs how long after this budget began sends of the previous one may reach the service
 */
export function assumeFullUnasked(state: BudgetState, nowMs: number, inFlightMs: number): void {
  if (state.assumedFullFromMs !== undefined) return;
  state.assumedFullFromMs = state.ledgerSinceMs + inFlightMs;
  if (state.assumedFullFromMs + longestHeldMs(state) <= nowMs) return;
  // Uses the whole limit, because the next worker's ceiling may be higher.
  const free = Math.max(0, state.settings.limit - occupiedSlotEnds(state, nowMs).length);
  for (let slot = 0; slot < free; slot++) state.spent.push(state.assumedFullFromMs);
}
