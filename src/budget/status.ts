import type { BudgetSend, BudgetSlots, BudgetStatus, BudgetWaiter, PauseReason } from '../contract/index.js';
import { AUDIT_LENGTH } from './limits.js';
import { eligibleLine, freeSlots, hasLapsed } from './line.js';
import { isPausedByOperator } from './operator.js';
import { expectSlot } from './pace.js';
import { expectOccupied, limitOf, longestHeldMs, occupiedSlotEnds, unsettled, usedSlotEnds } from './slots.js';
import type { BudgetState, Grant, Waiter } from './state.js';

/** How much of a budget its status names; the rest is only counted. */
export interface StatusExtent {
  /** Workflow id of a waiter that is named wherever it stands. */
  about?: string | undefined;
  /** Waiters and sends. @default 100 of each */
  most?: number;
}

/** What a budget would tell an onlooker at `nowMs`. Changes nothing. */
export function budgetStatus(
  state: BudgetState,
  nowMs: number,
  { about, most = AUDIT_LENGTH }: StatusExtent = {},
): BudgetStatus {
  const { windowMs, reserve } = state.settings;
  const limit = limitOf(state);
  const assumedFullUntilMs = (state.assumedFullFromMs ?? -Infinity) + longestHeldMs(state);
  const slots = occupiedSlotEnds(state, nowMs);
  const line = eligibleLine(state, nowMs);
  const inLine = new Set(line);
  const expectedSlotAtMs = expectSlot(state, nowMs);
  const paused = pausedOf(state, nowMs);
  let ahead = 0;
  const waiting: BudgetWaiter[] = [];
  const isNamed = ({ workflowId }: Waiter) => waiting.length < most || workflowId === about;
  for (const waiter of line) {
    if (isNamed(waiter)) {
      const { workflowId, jobId, lane, invitedAtMs } = waiter;
      const expectedAtMs = expectedSlotAtMs(ahead, freeSlots(state, slots.length, { waiter, line }));
      const isExpected = expectedAtMs !== undefined && !paused.paused;
      waiting.push({
        workflowId,
        jobId,
        lane,
        position: ahead + 1,
        ...(isExpected && { expectedAt: iso(expectedAtMs) }),
        ...(invitedAtMs !== undefined && { calledAt: iso(invitedAtMs) }),
      });
    }
    if (!hasLapsed(waiter, nowMs)) ahead += 1;
  }
  const elsewhere = state.waiters.filter((waiter) => !inLine.has(waiter));
  for (const waiter of elsewhere) {
    const { workflowId, jobId, lane } = waiter;
    if (isNamed(waiter)) waiting.push({ workflowId, jobId, lane });
  }
  return {
    projectId: state.projectId,
    limit,
    windowMs,
    reserve,
    used: usedSlotEnds(state, nowMs).length,
    unsettled: unsettled(state, nowMs).length,
    ...(slots.length > 0 && { nextFreeSlotAt: iso(Math.min(...slots)) }),
    ...paused,
    ...(state.pace?.gapMs !== undefined && { pacedEveryMs: Math.round(state.pace.gapMs) }),
    ...(assumedFullUntilMs > nowMs && { assumedFullUntil: iso(assumedFullUntilMs) }),
    waiting,
    waitingTotal: state.waiters.length,
    waitingInBatchLane: state.waiters.filter(({ lane }) => lane === 'batch').length,
    waitingForJob: elsewhere.length,
    lastSends: state.grants.slice(-most).reverse().map(toSend),
  };
}

/** What the future sends of a budget are told from. Changes nothing. */
export function budgetSlots(state: BudgetState, nowMs: number): BudgetSlots {
  const { cycleMs, ends } = expectOccupied(state, nowMs);
  const { paused } = pausedOf(state, nowMs);
  const { nextAtMs = nowMs, gapMs } = state.pace ?? {};
  return {
    limit: limitOf(state),
    reserve: state.settings.reserve,
    endsMs: ends,
    cycleMs,
    ...(paused && { pausedUntilMs: paused.until === undefined ? null : Date.parse(paused.until) }),
    ...(gapMs !== undefined && { pace: { nextAtMs, gapMs } }),
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
