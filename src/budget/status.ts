import { defined } from '../contract/defined.js';
import type { BudgetSend, BudgetStatus, BudgetWaiter, PauseReason } from '../contract/index.js';
import { AUDIT_LENGTH } from './limits.js';
import { eligibleLine, freeSlots, hasLapsed } from './line.js';
import { isPausedByOperator } from './operator.js';
import { expectSlot } from './pause.js';
import { limitOf, longestHeldMs, occupiedSlotEnds, sendsOfLastWindow, unsettled, usedSlotEnds } from './slots.js';
import type { BudgetState, Grant, ServicePause, Waiter } from './state.js';

/** How much of a budget its status lists. The rest is only counted. */
export interface StatusExtent {
  /** Workflow id of a waiter that is listed wherever it stands. */
  about?: string | undefined;
  /** Most waiters, and most sends. @default 100 */
  most?: number;
}

/** The status of a budget at `nowMs`. Changes nothing. */
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
      const isExpected = expectedAtMs !== undefined && !paused;
      const expectedAt = isExpected ? iso(expectedAtMs) : undefined;
      const calledAt = invitedAtMs === undefined || invitedAtMs > nowMs ? undefined : iso(invitedAtMs);
      waiting.push(defined({ workflowId, jobId, lane, position: ahead + 1, expectedAt, calledAt }));
    }
    if (!hasLapsed(state, waiter, nowMs)) ahead += 1;
  }
  const elsewhere = state.waiters.filter((waiter) => !inLine.has(waiter));
  for (const waiter of elsewhere) {
    const { workflowId, jobId, lane } = waiter;
    if (isNamed(waiter)) waiting.push({ workflowId, jobId, lane });
  }
  const gapMs = state.pace?.gapMs;
  return defined({
    projectId: state.projectId,
    limit,
    windowMs,
    reserve,
    used: usedSlotEnds(state, nowMs).length,
    unsettled: unsettled(state, nowMs).length,
    nextFreeSlotAt: slots.length > 0 ? iso(Math.min(...slots)) : undefined,
    paused,
    pacedEveryMs: gapMs === undefined ? undefined : Math.round(gapMs),
    assumedFullUntil: assumedFullUntilMs > nowMs ? iso(assumedFullUntilMs) : undefined,
    waiting,
    waitingTotal: state.waiters.length,
    waitingInBatchLane: state.waiters.filter(({ lane }) => lane === 'batch').length,
    waitingForJob: elsewhere.length,
    lastSends: state.grants.slice(-most).reverse().map(toSend),
  });
}

function pausedOf(state: BudgetState, nowMs: number): BudgetStatus['paused'] {
  const operatorPause = isPausedByOperator(state, nowMs) ? state.operatorPause : undefined;
  // Refused reads pause the budget until a read succeeds.
  const keyRefused = state.keyRefused && { reason: 'credentials' as const, sinceMs: state.keyRefused.sinceMs };
  const pauses: { reason: PauseReason; sinceMs?: number; untilMs?: number }[] = [
    ...(operatorPause ? [{ ...operatorPause, reason: 'operator' as const }] : []),
    ...(state.pause ? [state.pause] : []),
    ...(keyRefused ? [keyRefused] : []),
  ];
  if (pauses.length === 0) return undefined;
  const sinceMs = Math.min(...pauses.map((pause) => pause.sinceMs ?? Infinity));
  const untilMs = Math.max(...pauses.map((pause) => pause.untilMs ?? Infinity));
  return defined({
    reasons: [...new Set(pauses.map(({ reason }) => reason))],
    since: sinceMs < Infinity ? iso(sinceMs) : undefined,
    until: untilMs < Infinity ? iso(untilMs) : undefined,
    note: operatorPause?.note,
  });
}

function toSend({ workflowId, jobId, sendNumber, grantedAtMs, settledAtMs, outcome }: Grant): BudgetSend {
  const settledAt = settledAtMs === undefined ? undefined : iso(settledAtMs);
  return defined({ workflowId, jobId, sendNumber, grantedAt: iso(grantedAtMs), settledAt, outcome });
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/**
 * The facts from which metrics of a budget are computed. What changes only with time is given as times (epoch
 * milliseconds of budget time), so that it stays true while nothing happens. Plain JSON.
 */
export interface BudgetFacts {
  projectId: string;
  limit: number;
  windowMs: number;
  slotEndsMs: number[];
  /** When each send of the last window was granted. */
  sentAtMs: number[];
  leaseEndsMs: number[];
  waiting: number;
  /** How many of {@link waiting} have a busy job, or a job held by somebody else. */
  waitingForJob: number;
  /** Without `untilMs` if it lasts until it is resumed. */
  operatorPause?: { untilMs?: number };
  /** A pause that the service caused. Only an answer of the service ends it. */
  servicePause?: ServicePause['reason'];
}

export function budgetFacts(state: BudgetState, nowMs: number): BudgetFacts {
  const { projectId, settings, waiters, pause, operatorPause, keyRefused } = state;
  const untilMs = operatorPause?.untilMs;
  return {
    projectId,
    limit: limitOf(state),
    windowMs: settings.windowMs,
    slotEndsMs: usedSlotEnds(state, nowMs),
    sentAtMs: sendsOfLastWindow(state, nowMs),
    leaseEndsMs: unsettled(state, nowMs).map(({ grantedAtMs, leaseMs }) => grantedAtMs + leaseMs),
    waiting: waiters.length,
    waitingForJob: waiters.length - eligibleLine(state, nowMs).length,
    ...(isPausedByOperator(state, nowMs) && { operatorPause: untilMs === undefined ? {} : { untilMs } }),
    ...(keyRefused ? { servicePause: 'credentials' as const } : pause && { servicePause: pause.reason }),
  };
}
