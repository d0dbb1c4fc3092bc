import { defined, iso } from '../common/index.js';
import type { Lane, WaitReason } from '../contract/index.js';
import type { Waiting } from '../protocol/index.js';
import { lineOf, waitersInOrder } from './line.js';
import { nextGrantAtMs } from './pace.js';
import { isPausedByOperator, servicePauseOf, shownPauseOf } from './pauses.js';
import { delayedUntilMs, isDelayed } from './refusals.js';
import { slotAtMs } from './slots.js';
import type { BudgetState, Waiter } from './state.js';

// Why a follow-up waits, and for how long.

/** How many at the front learn at once that their reason to wait has changed. Others learn it when they ask. */
const MAX_INFORMED = 20;

/** The reason why the whole project waits. */
export function projectReason(state: BudgetState, line: readonly Waiter[], nowMs: number): WaitReason | undefined {
  if (state.isCounting) return 'counting';
  if (isPausedByOperator(state, nowMs)) return 'paused';
  return servicePauseOf(state, line, nowMs)?.reason;
}

/** A waiter's own reason to wait. */
function ownReason(waiter: Waiter, line: readonly Waiter[], nowMs: number): WaitReason {
  if (waiter.refusals && isDelayed(waiter, nowMs)) return waiter.refusals.reason;
  return line.includes(waiter) ? 'slot' : 'job-busy';
}

/**
 * The reply to a waiter, with its reason to wait, which it then knows.
 *
 * @param line of `lineOf`
 */
export function waitingReply(
  state: BudgetState,
  waiter: Waiter,
  line: readonly Waiter[],
  nowMs: number,
  reason = projectReason(state, line, nowMs) ?? ownReason(waiter, line, nowMs),
): Waiting {
  waiter.lastReason = reason;
  const index = line.indexOf(waiter);
  const expectedAtMs = reason === 'slot' ? expectedSendAtMs(state, nowMs, index, waiter.lane) : undefined;
  const { runId, sendNumber } = waiter;
  const untilMs = delayedUntilMs(waiter);
  const { isJobAtWork: isToWatch, refusals: { statusCode } = {} } = waiter;
  const ownPause = defined({ by: 'message', until: iso(untilMs), statusCode } as const);
  const pause = shownPauseOf(state, line, nowMs) ?? (untilMs > nowMs ? ownPause : undefined);
  const position = { position: index + 1, expectedAtMs, pause, isToWatch };
  return defined({ kind: 'waiting', runId, sendNumber, reason, ...position } as const);
}

/** New reasons to wait of those at the front. */
export function newReasons(state: BudgetState, nowMs: number): { workflowId: string; reply: Waiting }[] {
  const line = lineOf(state, nowMs);
  const ofProject = projectReason(state, line, nowMs);
  const first = waitersInOrder(state, line).slice(0, MAX_INFORMED);
  return first.flatMap((waiter) => {
    const reason = ofProject ?? ownReason(waiter, line, nowMs);
    if (waiter.lastReason === reason) return [];
    return [{ workflowId: waiter.workflowId, reply: waitingReply(state, waiter, line, nowMs, reason) }];
  });
}

/** When the waiter at this place, from 0, can expect its send; `undefined` if that is not known. */
export function expectedSendAtMs(state: BudgetState, nowMs: number, index: number, lane: Lane): number | undefined {
  const { pace } = state;
  const freeAtMs = slotAtMs(state, nowMs, index, lane);
  if (freeAtMs === undefined || !pace.limit.isSpaced) return freeAtMs;
  return Math.max(freeAtMs, nextGrantAtMs(pace) + index * (pace.limit.spacingMs ?? 0));
}
