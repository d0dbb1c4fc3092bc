import { eligibleLine } from './line.js';
import { isPausedByOperator } from './operator.js';
import { limitOf, sendsOfLastWindow, unsettled, usedSlotEnds } from './slots.js';
import type { BudgetState, ServicePause } from './state.js';

/**
 * What metrics of a budget are made of. What changes by time alone is given as instants of budget time (epoch
 * milliseconds), so that it stays true while nothing happens. Plain JSON.
 */
export interface BudgetFacts {
  projectId: string;
  limit: number;
  windowMs: number;
  /** Ends of the slots that are occupied. */
  slotEndsMs: number[];
  /** When each send of the last window was granted. */
  sentAtMs: number[];
  /** Ends of the leases of the sends that are not settled. */
  leaseEndsMs: number[];
  waiting: number;
  /** Of {@link waiting}: those whose job is busy, or held by somebody else. */
  waitingForJob: number;
  /** Without `untilMs` until it is resumed. */
  operatorPause?: { untilMs?: number };
  /** A pause that the service caused; only an answer of the service ends it. */
  servicePause?: ServicePause['reason'];
}

/** The facts at `nowMs`. Changes nothing. */
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

/** What a budget reports to the worker that runs it, for the worker's metrics. Plain JSON. */
export interface BudgetReport {
  facts: BudgetFacts;
  /** Budget time of the facts, in epoch milliseconds. */
  budgetTimeMs: number;
  /** Sends that were granted. */
  grants: CountStep;
  /** Sends that the service answered with 429. */
  limited: CountStep;
}

/**
 * How a count of the budget's went on. A step that is reported twice, because a workflow task had to be run again, can be
 * told from two steps.
 */
export interface CountStep {
  from: number;
  to: number;
}
