import type { SendOutcome } from '../contract/index.js';
import { GAP_AFTER_REFUSAL, GAP_AFTER_SEND, MAX_UNSETTLED, SHORTEST_GAP_SHARE } from './limits.js';
import { forecastSlots, limitOf } from './slots.js';
import type { BudgetState } from './state.js';

/** The service has refused a message while nothing was paused. */
export function slowDown(state: BudgetState, nowMs: number): void {
  const before = state.pace;
  const isFirst = before === undefined || nowMs - before.refusedAtMs >= state.settings.windowMs;
  const gapMs = before?.gapMs === undefined ? evenGapMs(state) : before.gapMs * GAP_AFTER_REFUSAL;
  state.pace = {
    refusedAtMs: nowMs,
    atOnce: 1,
    ...(!isFirst && { gapMs, nextAtMs: before.nextAtMs ?? nowMs }),
  };
}

/** The service has taken a message. */
export function speedUp(state: BudgetState, nowMs: number, outcome: SendOutcome): void {
  const { pace } = state;
  if (!pace || (outcome !== 'sent' && outcome !== 'rejected')) return;
  pace.atOnce = Math.min(MAX_UNSETTLED, pace.atOnce + 1);
  if (pace.gapMs !== undefined) {
    pace.gapMs *= GAP_AFTER_SEND;
    if (pace.gapMs < SHORTEST_GAP_SHARE * evenGapMs(state)) delete state.pace;
  } else if (nowMs - pace.refusedAtMs >= state.settings.windowMs) {
    delete state.pace;
  }
}

/** A send was granted for that instant. */
export function notePaced({ pace }: BudgetState, slotAtMs: number): void {
  if (pace?.gapMs !== undefined) pace.nextAtMs = Math.max(slotAtMs, pace.nextAtMs ?? slotAtMs) + pace.gapMs;
}

/** Sends that may be unsettled at once. */
export function sendsAtOnce({ pace }: BudgetState): number {
  return pace?.atOnce ?? MAX_UNSETTLED;
}

/** The earliest instant at which somebody may send who has so many others before it. */
export function pacedMs({ pace }: BudgetState, ahead: number): number {
  return pace?.gapMs === undefined ? -Infinity : Math.ceil((pace.nextAtMs ?? -Infinity) + ahead * pace.gapMs);
}

/** When somebody may expect its slot who has so many others before it, while so many slots are free. */
export function expectSlot(state: BudgetState, nowMs: number): (ahead: number, free: number) => number | undefined {
  const forecast = forecastSlots(state, nowMs);
  return (ahead, free) => {
    const slotAtMs = ahead < free ? nowMs : forecast(ahead - free);
    return slotAtMs === undefined ? undefined : Math.max(slotAtMs, pacedMs(state, ahead));
  };
}

/** The gap at which the limit is used up evenly. */
function evenGapMs(state: BudgetState): number {
  return state.settings.windowMs / Math.max(1, limitOf(state));
}
