import { defined, iso } from '../common/index.js';
import { lanes, type ShownPause } from '../contract/index.js';
import { type Ask, type OutcomeReport, refusalOf } from '../protocol/index.js';
import { forgetLimit } from './learned-limit.js';
import { sortLine, waiterOf } from './line.js';
import { noteAccepted, noteOutcome, noteRefused, type ServicePause } from './pace.js';
import { delayedUntilMs, noteRefusal } from './refusals.js';
import { slotAtMs, windowOf } from './slots.js';
import { type BudgetState, type LatestSend, latestSendOf, type Waiter } from './state.js';

// The whole project waits while an operator pauses it, or while the service refuses its messages.

export function isPausedByOperator({ operatorPause }: BudgetState, nowMs: number): boolean {
  return operatorPause !== undefined && (operatorPause.untilMs ?? Infinity) > nowMs;
}

/**
 * The service's pause. It lasts until a probe is accepted, but once its time is over only if somebody in line may
 * probe. It ends when the first of these may, and has a slot.
 *
 * @param line of `lineOf`
 */
export function servicePauseOf(state: BudgetState, line: readonly Waiter[], nowMs: number): ServicePause | undefined {
  const { pause } = state.pace;
  if (!pause) return undefined;
  if (line.length === 0) return pause.untilMs > nowMs ? pause : undefined;
  const waiting = lanes.filter((lane) => line.some((waiter) => waiter.lane === lane));
  const freeAtMs = Math.min(...waiting.map((lane) => slotAtMs(state, nowMs, 0, lane) ?? nowMs));
  return { ...pause, untilMs: Math.max(pause.untilMs, Math.min(...line.map(delayedUntilMs)), freeAtMs) };
}

export function shownPauseOf(state: BudgetState, line: readonly Waiter[], nowMs: number): ShownPause | undefined {
  if (isPausedByOperator(state, nowMs)) {
    const { untilMs, note } = state.operatorPause ?? {};
    return defined({ by: 'operator', until: untilMs === undefined ? undefined : iso(untilMs), note } as const);
  }
  const pause = servicePauseOf(state, line, nowMs);
  return pause && defined({ by: 'service', until: iso(pause.untilMs), statusCode: pause.statusCode } as const);
}

/** Ends the operator's pause, and tries at once what the service has refused. */
export function resume(state: BudgetState, nowMs: number): void {
  const { pace, waiters, latestSends } = state;
  delete state.operatorPause;
  forgetLimit(pace.limit);
  if (pace.pause) Object.assign(pace.pause, { untilMs: Math.min(pace.pause.untilMs, nowMs), retryAtMs: nowMs });
  for (const message of [...waiters, ...Object.values(latestSends)]) delete message.refusals;
  sortLine(state);
}

/** Draws conclusions from a read of the job that the service refused before the ask. */
export function learnFromRead(state: BudgetState, waiter: Waiter, ask: Ask, nowMs: number): void {
  const { refusal } = ask;
  // One refusal is not counted twice. The message's send reads the job again, and reports what that shows.
  if (!refusal || waiter.refusals) return;
  const { pace } = state;
  noteRefusal(waiter, { ...ask, refusal }, pace.acceptedGrantAtMs, nowMs);
  // A probe decides about a pause that has already begun.
  if (!pace.pause) noteRefused(pace, { ...ask, reason: refusal }, windowOf(state), nowMs);
  sortLine(state);
}

/**
 * Draws conclusions about the service from an outcome.
 *
 * @param granted the send, if this budget granted it
 */
export function learnFromOutcome(
  state: BudgetState,
  report: OutcomeReport,
  granted: LatestSend | undefined,
  nowMs: number,
): void {
  const { workflowId, outcome, refusal: ofRead } = report;
  const { pace, counts } = state;
  const { grantedAtMs = 0, probe } = granted ?? {};
  if (outcome === 'limited') counts.limited += 1;
  const isOutage = outcome !== 'notSent' && noteOutcome(pace, outcome === 'unknown', nowMs);
  if (outcome === 'sent') return noteAccepted(pace, { grantedAtMs, probe }, windowOf(state), nowMs);
  const reason = isOutage ? 'outage' : (refusalOf(outcome) ?? ofRead);
  if (!reason) return;
  const latest = latestSendOf(state, workflowId);
  const isRepeated = latest?.refusals?.reason === reason;
  const refusal = { ...report, refusal: reason };
  const isAlone = latest && !isOutage && noteRefusal(latest, refusal, pace.acceptedGrantAtMs, nowMs);
  // A report that was lost is made again, which may be after the next ask.
  const waiter = waiterOf(state, workflowId);
  if (waiter && !isOutage) {
    noteRefusal(waiter, refusal, pace.acceptedGrantAtMs, nowMs);
    sortLine(state);
  }
  const isProbeOfLimit = probe !== undefined && reason === 'limited';
  if (isProbeOfLimit || !isAlone) noteRefused(pace, { ...report, reason, probe, isRepeated }, windowOf(state), nowMs);
}
