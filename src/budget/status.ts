import { defined } from '../contract/defined.js';
import { iso } from '../contract/durations.js';
import type { BudgetSend, BudgetStatus, BudgetWaiter } from '../contract/budget.js';
import { type Budget, isHeld } from './budget.js';
import type { Grant, SendRecord } from './state.js';

const LISTED_WAITERS = 20;

export interface StatusExtent {
  /** Workflow id of a follow-up that is listed wherever it is. */
  about?: string | undefined;
  /** @default all that the budget keeps */
  mostSends?: number;
}

export function budgetStatus(
  projectId: string,
  budget: Budget,
  nowMs: number,
  { about, mostSends = Infinity }: StatusExtent = {},
): BudgetStatus {
  const { state, configuredLimit: limit } = budget;
  const { settings, learned, waiters, isCounting, lastSends } = state;
  const underWay = state.grants.filter(({ overAtMs }) => overAtMs > nowMs);
  const paused = pausedOf(budget, nowMs);
  const line = budget.line();
  const inLine = new Set(line);
  const elsewhere = waiters.filter((waiter) => !inLine.has(waiter));
  const waiting = [...line, ...elsewhere].flatMap(({ workflowId, lane, held }, index): BudgetWaiter[] => {
    if (index >= LISTED_WAITERS && workflowId !== about) return [];
    if (index >= line.length) return [{ workflowId, lane }];
    const waiter = { workflowId, lane, position: index + 1 };
    if (isHeld(held, nowMs)) return [{ ...waiter, refusal: { reason: held.reason, until: iso(held.untilMs) } }];
    const expectedAtMs = paused || isCounting ? undefined : budget.expectedAtMs(nowMs, index, lane);
    return [defined({ ...waiter, expectedAt: isoOf(expectedAtMs) })];
  });
  const ends = budget.slotEnds().filter((endMs) => endMs > nowMs);
  return defined({
    projectId,
    limit,
    windowMs: settings.windowMs,
    reserve: settings.reserve,
    used: ends.length,
    unsettled: underWay.length,
    nextFreeSlotAt: isoOf(ends[0]),
    learnedLimit: learned && learned.limit < limit ? learned.limit : undefined,
    isCounting: isCounting || undefined,
    remembersSince: iso(state.rememberedSinceMs),
    paused,
    waiting,
    waitingTotal: waiters.length,
    waitingInBatchLane: waiters.filter(({ lane }) => lane === 'batch').length,
    waitingForJob: elsewhere.length,
    lastSends: lastSends
      .slice(-Math.min(mostSends, lastSends.length))
      .map((send) => toSend(send, underWay))
      .reverse(),
  });
}

const isoOf = (ms: number | undefined): string | undefined => (ms === undefined ? undefined : iso(ms));

function toSend(send: SendRecord, grants: readonly Grant[]): BudgetSend {
  const { workflowId, sendNumber, grantedAtMs, settledAtMs } = send;
  const isUnderWay = grants.some((grant) => grant.workflowId === workflowId && grant.sendNumber === sendNumber);
  // No outcome was reported.
  const outcome = send.outcome ?? (isUnderWay ? undefined : 'unknown');
  return defined({ workflowId, sendNumber, grantedAt: iso(grantedAtMs), settledAt: isoOf(settledAtMs), outcome });
}

function pausedOf(budget: Budget, nowMs: number): BudgetStatus['paused'] {
  const { operatorPause, servicePause } = budget.state;
  const ofOperator = budget.isPausedByOperator(nowMs) ? operatorPause : undefined;
  const pauses = [
    ...(ofOperator ? [{ ...ofOperator, reason: 'operator' as const }] : []),
    ...(servicePause ? [servicePause] : []),
  ];
  if (pauses.length === 0) return undefined;
  const untilMs = Math.max(...pauses.map((pause) => pause.untilMs ?? Infinity));
  return defined({
    reasons: pauses.map(({ reason }) => reason),
    since: iso(Math.min(...pauses.map(({ sinceMs }) => sinceMs))),
    until: untilMs < Infinity ? iso(untilMs) : undefined,
    note: ofOperator?.note,
  });
}
