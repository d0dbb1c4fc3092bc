import type { Lane } from '../contract/index.js';
import type { Window } from './learned-limit.js';
import { type BudgetState, type Grant, isSameSend, type SendId, type Waiter } from './state.js';

// A slot is in use from its grant until a window after the send is over. A send that was not made returns it.

/** Messages in a window, up to the worker's maximum. */
export function limitOf({ settings, maxLimit }: BudgetState): number {
  return Math.min(settings.limit, maxLimit);
}

/** Uses slots from `fromMs`, for sends that this budget did not grant. */
export function useSlots(state: BudgetState, fromMs: number, count = 1): void {
  for (let used = 0; used < count; used += 1) state.spent.push(fromMs);
}

/** Uses a slot for a waiter's send. */
export function grantSlot(
  state: BudgetState,
  { workflowId, runId, sendNumber, leaseMs, drainMs }: Waiter,
  nowMs: number,
): Grant {
  const send = { workflowId, runId, sendNumber };
  const grant = { ...send, grantedAtMs: nowMs, leaseMs, overAtMs: nowMs + leaseMs + drainMs };
  state.grants.push(grant);
  return grant;
}

/** Notes that a send is over. Its slot stays in use for a window from `fromMs`. */
export function spendSlot(state: BudgetState, grant: Grant, fromMs: number): void {
  state.grants = state.grants.filter((each) => each !== grant);
  state.spent.push(fromMs);
}

/** Returns the slot of a send that was not made. */
export function returnSlot(state: BudgetState, send: SendId): void {
  state.grants = state.grants.filter((grant) => !isSameSend(grant, send));
}

/** Ends grants whose sends are over, and frees slots whose window is over. */
export function expireSlots(state: BudgetState, nowMs: number): void {
  const { windowMs, marginMs } = state.settings;
  for (const grant of state.grants) if (grant.overAtMs <= nowMs) spendSlot(state, grant, grant.overAtMs);
  const isInUse = (fromMs: number) => fromMs + windowMs + marginMs > nowMs;
  const freed = state.spent.filter((fromMs) => !isInUse(fromMs));
  if (freed.length === 0) return;
  state.freed = [...state.freed, ...freed].sort((a, b) => a - b).slice(-state.maxLimit);
  state.spent = state.spent.filter(isInUse);
}

/** Prepares for a longer window: slots that were free are in use again, and what is not remembered has to be counted. */
export function lengthenWindow(state: BudgetState, windowMs: number, nowMs: number): void {
  if (windowMs <= state.settings.windowMs) return;
  state.spent.push(...state.freed.splice(0));
  if (state.rememberedSinceMs > nowMs - windowMs) state.isCounting = true;
}

/** Slots that a lane may use now. Negative if a lower limit was set. */
export function freeSlots(state: BudgetState, lane: Lane): number {
  const { settings } = state;
  const limit = limitOf(state);
  const used = state.grants.length + state.spent.length;
  // Proportional to a lower limit, so that the batch lane does not wait for ever.
  const share = Math.floor((settings.reserve * limit) / Math.max(1, settings.limit));
  return limit - used - (lane === 'batch' ? share : 0);
}

/** When each used slot becomes free, in order. */
export function slotEnds(state: BudgetState): number[] {
  const { settings, grants, spent } = state;
  const slotMs = settings.windowMs + settings.marginMs;
  const startsMs = [...spent, ...grants.map(({ overAtMs }) => overAtMs)];
  return startsMs.map((startMs) => startMs + slotMs).sort((a, b) => a - b);
}

/** When slot `index`, from 0, is free for a lane; `undefined` if that is not known. */
export function slotAtMs(state: BudgetState, nowMs: number, index: number, lane: Lane): number | undefined {
  const free = freeSlots(state, lane);
  return index < free ? nowMs : slotEnds(state)[index - free];
}

/** The window that spaced messages are spread over. */
export function windowOf(state: BudgetState): Window {
  return { windowMs: state.settings.windowMs, limit: Math.max(1, limitOf(state)) };
}
