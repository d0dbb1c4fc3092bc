import type { KeyReadMessage, SendOutcome } from '../contract/index.js';
import { slowDown, speedUp } from './pace.js';
import type { BudgetState, Grant, ServicePause } from './state.js';

/** Shares of the window: the first backoff is 1/60 of it (1 min of an hour), the longest 1/4 (15 min). */
const FIRST_BACKOFF_SHARE = 1 / 60;
const LONGEST_BACKOFF_SHARE = 1 / 4;

/** Whether nobody but a probe may send now. */
export function isPaused(state: BudgetState, nowMs: number): boolean {
  return state.pause !== undefined && (nowMs < state.pause.untilMs || state.pause.probe !== undefined);
}

/** Ends a probe that settled elsewhere, is gone, or is past its lease: the next asker is the next probe. */
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
 * What a read says about the key. While reads are refused nobody is invited, since no follow-up asks before it has read
 * its job. Those that were refused read again by themselves, and each ask says that a read has succeeded.
 */
export function noteKeyRead(state: BudgetState, nowMs: number, { isRefused }: KeyReadMessage): void {
  if (!isRefused) delete state.keyRefused;
  else state.keyRefused = { sinceMs: state.keyRefused?.sinceMs ?? nowMs, untilMs: nowMs + FORGET_KEY_AFTER_MS };
}

/** Whether a grant is the probe of a pause. */
export function isProbe(pause: ServicePause | undefined, grant: Grant): boolean {
  return pause?.probe?.workflowId === grant.workflowId && pause.probe.sendNumber === grant.sendNumber;
}

/**
 * What an answer of the service does to the pause. Only the probe moves the backoff or lifts the pause; an answer to
 * another send in flight may only lengthen it by its Retry-After, and an answer to a send granted before the last
 * resume says nothing about now.
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
