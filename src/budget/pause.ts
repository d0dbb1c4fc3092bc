import { defined } from '../contract/defined.js';
import type { SendOutcome } from '../contract/index.js';
import type { KeyReadMessage, ToldPause } from '../contract/protocol.js';
import { GAP_AFTER_REFUSAL, GAP_AFTER_SEND, MAX_UNSETTLED, SHORTEST_GAP_SHARE, UNSETTLED_WAIT_MS } from './limits.js';
import { isPausedByOperator } from './operator.js';
import { forecastSlots, limitOf } from './slots.js';
import type { BudgetState, Grant, ServicePause } from './state.js';

/** Shares of the window: the first backoff is 1/60 of it (1 min of an hour), the longest is 1/4 (15 min). */
const FIRST_BACKOFF_SHARE = 1 / 60;
const LONGEST_BACKOFF_SHARE = 1 / 4;

/** Whether nobody but a probe may send now. */
export function isPaused(state: BudgetState, nowMs: number): boolean {
  return state.pause !== undefined && (nowMs < state.pause.untilMs || state.pause.probe !== undefined);
}

/** Ends a probe that was settled otherwise, is gone, or is past its lease. The next ask is the next probe. */
export function expireProbe(state: BudgetState, nowMs: number): void {
  if (nowMs >= (state.keyRefused?.untilMs ?? Infinity)) delete state.keyRefused;
  const probe = state.pause?.probe;
  if (!state.pause || !probe) return;
  const grant = state.grants.find((each) => isProbe(state.pause, each));
  if (!grant || grant.settledAtMs !== undefined || nowMs > grant.grantedAtMs + grant.leaseMs) delete state.pause.probe;
}

/** After this time without news of the key, nobody is left to report that it is accepted again. */
const FORGET_KEY_AFTER_MS = 15 * 60_000;

/**
 * Notes what a read says about the key. While reads are refused nobody is invited, because follow-ups read their job
 * before they ask. Follow-ups whose reads were refused read again by themselves, and each ask shows that a read has
 * succeeded.
 */
export function noteKeyRead(state: BudgetState, nowMs: number, { isRefused }: KeyReadMessage): void {
  if (!isRefused) delete state.keyRefused;
  else state.keyRefused = { sinceMs: state.keyRefused?.sinceMs ?? nowMs, untilMs: nowMs + FORGET_KEY_AFTER_MS };
}

export function isProbe(pause: ServicePause | undefined, grant: Grant): boolean {
  return pause?.probe?.workflowId === grant.workflowId && pause.probe.sendNumber === grant.sendNumber;
}

/**
 * What an answer of the service does to the pause. Only the probe changes the backoff or ends the pause. The answer to
 * another send in flight can only lengthen the pause by its Retry-After. The answer to a send that was granted before
 * the last resume says nothing about now.
 */
export function applyOutcome(
  state: BudgetState,
  nowMs: number,
  { grant, outcome, retryAfterMs }: { grant: Grant; outcome: SendOutcome; retryAfterMs: number | undefined },
): void {
  const wasProbe = isProbe(state.pause, grant);
  if (outcome === 'limited' || outcome === 'unauthorized') {
    const reason = outcome === 'limited' ? 'limited' : 'credentials';
    if (state.pause && !wasProbe) {
      if (retryAfterMs !== undefined) state.pause.untilMs = Math.max(state.pause.untilMs, nowMs + retryAfterMs);
      return;
    }
    if (!state.pause && grant.grantedAtMs < (state.resumedAtMs ?? -Infinity)) return;
    if (!state.pause && outcome === 'limited') slowDown(state, nowMs);
    const step = state.pause?.step ?? 0;
    const backoffMs = retryAfterMs ?? backoffOf(state.settings.windowMs, step);
    state.pause = {
      reason,
      sinceMs: state.pause?.sinceMs ?? nowMs,
      untilMs: Math.max(state.pause?.untilMs ?? 0, nowMs + backoffMs),
      step: step + 1,
    };
    return;
  }
  if (grant.grantedAtMs >= (state.pace?.refusedAtMs ?? Infinity)) speedUp(state, nowMs, outcome);
  if (!state.pause || !wasProbe) return;
  if (outcome === 'sent' || outcome === 'rejected') {
    delete state.pause;
    state.resumedAtMs = nowMs;
  } else {
    delete state.pause.probe;
  }
}

function backoffOf(windowMs: number, step: number): number {
  return Math.round(Math.min(windowMs * FIRST_BACKOFF_SHARE * 2 ** step, windowMs * LONGEST_BACKOFF_SHARE));
}

/** Why nobody may send now, and until when. */
interface Paused {
  reason: 'paused' | 'credentials';
  endMs: number;
  by: ToldPause['by'];
  note?: string | undefined;
}

/** The pause that applies now, if any. */
export function pausedUntil(state: BudgetState, nowMs: number): Paused | undefined {
  if (isPausedByOperator(state, nowMs)) {
    const { untilMs = Infinity, note } = state.operatorPause ?? {};
    return { reason: 'paused', endMs: untilMs, by: 'operator', note };
  }
  if (!state.pause || !isPaused(state, nowMs)) return undefined;
  return {
    reason: state.pause.reason === 'credentials' ? 'credentials' : 'paused',
    endMs: Math.max(state.pause.untilMs, nowMs + (state.pause.probe ? UNSETTLED_WAIT_MS : 0)),
    by: 'service',
  };
}

/** What the follow-up shows of the pause. A refused key is a reason of its own and has no known end. */
export function pauseTold({ reason, endMs, by, note }: Paused): { pause?: ToldPause } {
  if (reason !== 'paused') return {};
  return { pause: { by, ...(endMs < Infinity && { untilMs: endMs }), ...defined({ note }) } };
}

/** The service has refused a message while the budget was not paused. */
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

/** The service has accepted a message. */
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

/** A send was granted for `slotAtMs`. */
export function notePaced({ pace }: BudgetState, slotAtMs: number): void {
  if (pace?.gapMs !== undefined) pace.nextAtMs = Math.max(slotAtMs, pace.nextAtMs ?? slotAtMs) + pace.gapMs;
}

export function sendsAtOnce({ pace }: BudgetState): number {
  return pace?.atOnce ?? MAX_UNSETTLED;
}

/** The earliest time at which a waiter with `ahead` others before it may send. */
export function pacedMs({ pace }: BudgetState, ahead: number): number {
  return pace?.gapMs === undefined ? -Infinity : Math.ceil((pace.nextAtMs ?? -Infinity) + ahead * pace.gapMs);
}

/** When a waiter may expect its slot, from the number of others before it and of free slots. */
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
