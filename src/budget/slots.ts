import type { Lane, SendOutcome } from '../contract/index.js';
import { refusalOf } from '../protocol/index.js';
import type { Window } from './learned-limit.js';
import { type BudgetState, type Grant, isSameSend, type SendId, sendKey, type Waiter } from './state.js';

// A slot is in use from its grant until a window after the send is over. A send that was not made returns it.

/** Messages in a window, up to the worker's maximum. */
export function limitOf({ settings, maxLimit }: BudgetState): number {
  return Math.min(settings.limit, maxLimit);
}

/** Uses a slot from `fromMs`, for a send that this budget did not grant. */
export function useSlot(state: BudgetState, fromMs: number, outcome?: SendOutcome): void {
  if (outcome && refusalOf(outcome)) state.refused.push(fromMs);
  else state.spent.push(fromMs);
}

export function useSlots(state: BudgetState, fromMs: number, count: number): void {
  for (let used = 0; used < count; used += 1) useSlot(state, fromMs);
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
export function spendSlot(state: BudgetState, grant: Grant, fromMs: number, outcome: SendOutcome): void {
  state.grants = state.grants.filter((each) => each !== grant);
  useSlot(state, fromMs, outcome);
}

/** Returns the slot of a send that was not made. */
export function returnSlot(state: BudgetState, send: SendId): void {
  state.grants = state.grants.filter((grant) => !isSameSend(grant, send));
  Reflect.deleteProperty(state.unreported, sendKey(send));
}

/** Notes that a send was made that was over before its report: no later report returns its slot. */
export function keepSlot(state: BudgetState, send: SendId, outcome: SendOutcome): void {
  const fromMs = state.unreported[sendKey(send)];
  returnSlot(state, send);
  if (fromMs !== undefined) useSlot(state, fromMs, outcome);
}

/** Ends grants whose sends are over, and frees slots whose window is over. */
export function expireSlots(state: BudgetState, nowMs: number): void {
  const { windowMs, marginMs } = state.settings;
  for (const grant of state.grants) if (grant.overAtMs <= nowMs) state.unreported[sendKey(grant)] = grant.overAtMs;
  state.grants = state.grants.filter(({ overAtMs }) => overAtMs > nowMs);
  const isInUse = (fromMs: number) => fromMs + windowMs + marginMs > nowMs;
  const freed = windowStartsMs(state).filter((fromMs) => !isInUse(fromMs));
  if (freed.length === 0) return;
  state.freed = [...state.freed, ...freed].sort((a, b) => a - b).slice(-state.maxLimit);
  state.spent = state.spent.filter(isInUse);
  state.refused = state.refused.filter(isInUse);
  state.unreported = Object.fromEntries(Object.entries(state.unreported).filter(([, fromMs]) => isInUse(fromMs)));
}

/** When the window of each ended send began. */
function windowStartsMs({ spent, unreported, refused }: BudgetState): number[] {
  return [...spent, ...Object.values(unreported), ...refused];
}

/** Prepares for a longer window: slots that were free are in use again, and what is not remembered has to be counted. */
export function lengthenWindow(state: BudgetState, windowMs: number, nowMs: number): void {
  if (windowMs <= state.settings.windowMs) return;
  for (const fromMs of state.freed.splice(0)) useSlot(state, fromMs);
  if (state.rememberedSinceMs > nowMs - windowMs) state.isCounting = true;
}

/** Slots that a lane may use now. Negative if a lower limit was set. */
export function freeSlots(state: BudgetState, lane: Lane): number {
  const { settings } = state;
  const limit = limitOf(state);
  const used = state.grants.length + spentSlots(state) + state.refused.length;
  // Proportional to a lower limit, so that the batch lane does not wait for ever.
  const share = Math.floor((settings.reserve * limit) / Math.max(1, settings.limit));
  return limit - used - (lane === 'batch' ? share : 0);
}

/** Slots of ended sends, without those that the service refused. */
function spentSlots({ spent, unreported }: BudgetState): number {
  return spent.length + Object.keys(unreported).length;
}

/** When each used slot becomes free, in order. */
export function slotEnds(state: BudgetState): number[] {
  const { settings, grants } = state;
  const slotMs = settings.windowMs + settings.marginMs;
  const startsMs = [...windowStartsMs(state), ...grants.map(({ overAtMs }) => overAtMs)];
  return startsMs.map((startMs) => startMs + slotMs).sort((a, b) => a - b);
}

/** When slot `index`, from 0, is free for a lane; `undefined` if that is not known. */
export function slotAtMs(state: BudgetState, nowMs: number, index: number, lane: Lane): number | undefined {
  const free = freeSlots(state, lane);
  return index < free ? nowMs : slotEnds(state)[index - free];
}

/** The budget's own count, with which a 429 of the service is compared. */
export function windowOf(state: BudgetState): Window {
  return { windowMs: state.settings.windowMs, limit: limitOf(state), used: spentSlots(state) };
}
