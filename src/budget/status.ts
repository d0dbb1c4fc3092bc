import type { BudgetSend, BudgetStatus, BudgetWaiter, PauseReason } from '../contract/index.js';
import { AUDIT_LENGTH } from './limits.js';
import { eligibleLine, freeSlots, hasLapsed } from './line.js';
import { isPausedByOperator } from './operator.js';
import { forecastSlots, limitOf, occupiedSlotEnds, unsettled, usedSlotEnds } from './slots.js';
import type { BudgetState, Grant } from './state.js';

/** Waiters that a status names; the rest is only counted. */
const MAX_SHOWN_WAITERS = 100;

/** What a gate would tell an onlooker at `nowMs`. Changes nothing. */
export function budgetStatus(state: BudgetState, nowMs: number): BudgetStatus {
  const { windowMs, reserve } = state.settings;
  const limit = limitOf(state);
  const slots = occupiedSlotEnds(state, nowMs);
  const line = eligibleLine(state, nowMs);
  const inLine = new Set(line);
  const expectedSlotAtMs = forecastSlots(state, nowMs);
  const paused = pausedOf(state, nowMs);
  let ahead = 0;
  const waiting: BudgetWaiter[] = line.slice(0, MAX_SHOWN_WAITERS).map((waiter) => {
    const { workflowId, jobId, lane } = waiter;
    const expectedAtMs = expectedSlotAtMs(ahead - freeSlots(state, slots.length, { waiter, line }));
    const shown = { workflowId, jobId, lane, position: ahead + 1 };
    if (!hasLapsed(waiter, nowMs)) ahead += 1;
    return expectedAtMs === undefined || paused.paused ? shown : { ...shown, expectedAt: iso(expectedAtMs) };
  });
  const elsewhere = state.waiters.filter((waiter) => !inLine.has(waiter));
  waiting.push(
    ...elsewhere
      .slice(0, MAX_SHOWN_WAITERS - waiting.length)
      .map(({ workflowId, jobId, lane }) => ({ workflowId, jobId, lane })),
  );
  return {
    projectId: state.projectId,
    limit,
    windowMs,
    reserve,
    used: usedSlotEnds(state, nowMs).length,
    unsettled: unsettled(state, nowMs).length,
    ...(slots.length > 0 && { nextFreeSlotAt: iso(Math.min(...slots)) }),
    ...paused,
    waiting,
    waitingTotal: state.waiters.length,
    waitingForJob: elsewhere.length,
    lastSends: state.grants.slice(-AUDIT_LENGTH).reverse().map(toSend),
  };
}

function pausedOf(state: BudgetState, nowMs: number): Pick<BudgetStatus, 'paused'> {
  const operatorPause = isPausedByOperator(state, nowMs) ? state.operatorPause : undefined;
  // Refused reads pause until one is answered again.
  const keyRefused = state.keyRefused && { reason: 'credentials' as const, sinceMs: state.keyRefused.sinceMs };
  const pauses: { reason: PauseReason; sinceMs?: number; untilMs?: number }[] = [
    ...(operatorPause ? [{ ...operatorPause, reason: 'operator' as const }] : []),
    ...(state.pause ? [state.pause] : []),
    ...(keyRefused ? [keyRefused] : []),
  ];
  if (pauses.length === 0) return {};
  const sinceMs = Math.min(...pauses.map((pause) => pause.sinceMs ?? Infinity));
  const untilMs = Math.max(...pauses.map((pause) => pause.untilMs ?? Infinity));
  return {
    paused: {
      reasons: [...new Set(pauses.map(({ reason }) => reason))],
      ...(sinceMs < Infinity && { since: iso(sinceMs) }),
      ...(untilMs < Infinity && { until: iso(untilMs) }),
      ...(operatorPause?.note !== undefined && { note: operatorPause.note }),
    },
  };
}

function toSend({ workflowId, jobId, sendNumber, grantedAtMs, settledAtMs, outcome }: Grant): BudgetSend {
  return {
    workflowId,
    jobId,
    sendNumber,
    grantedAt: iso(grantedAtMs),
    ...(settledAtMs !== undefined && { settledAt: iso(settledAtMs) }),
    ...(outcome !== undefined && { outcome }),
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
