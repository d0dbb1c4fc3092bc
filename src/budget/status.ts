import { defined, iso } from '../common/index.js';
import type { BudgetSend, BudgetStatus, BudgetWaiter, RefusedMessages } from '../contract/index.js';
import { refusalOf } from '../protocol/index.js';
import { lineOf, waitersInOrder } from './line.js';
import { isPausedByOperator, servicePauseOf } from './pauses.js';
import { delayedUntilMs, isDelayed } from './refusals.js';
import { limitOf, slotEnds } from './slots.js';
import type { BudgetState, Grant, SendRecord, Waiter } from './state.js';
import { expectedSendAtMs } from './waiting.js';

const LISTED_WAITERS = 20;

export interface StatusExtent {
  /** Workflow id of a follow-up that is listed wherever it is. */
  about?: string | undefined;
  /** @default all that the budget keeps */
  maxSends?: number;
  /** Whether it was asked to cancel, and refused. */
  cancelRefused?: boolean;
}

export function budgetStatus(
  projectId: string,
  state: BudgetState,
  nowMs: number,
  { about, maxSends = Infinity, cancelRefused }: StatusExtent = {},
): BudgetStatus {
  const { settings, pace, waiters, isCounting, shownSends } = state;
  const underWay = state.grants.filter(({ overAtMs }) => overAtMs > nowMs);
  const line = lineOf(state, nowMs);
  const paused = pausedOf(state, line, nowMs);
  const waiting = waitersInOrder(state, line).flatMap((entry, index): BudgetWaiter[] => {
    const { workflowId, lane, refusals } = entry;
    if (index >= LISTED_WAITERS && workflowId !== about) return [];
    if (index >= line.length) return [{ workflowId, lane }];
    const waiter = { workflowId, lane, position: index + 1 };
    if (refusals && !paused && isDelayed(entry, nowMs)) {
      const { reason, statusCode } = refusals;
      const until = iso(delayedUntilMs(entry));
      return [{ ...waiter, refusal: defined({ reason, statusCode, until }) }];
    }
    const expectedAtMs = paused || isCounting ? undefined : expectedSendAtMs(state, nowMs, index, lane);
    return [defined({ ...waiter, expectedAt: isoOf(expectedAtMs) })];
  });
  const ends = slotEnds(state).filter((endMs) => endMs > nowMs);
  return defined({
    projectId,
    limit: limitOf(state),
    windowMs: settings.windowMs,
    reserve: settings.reserve,
    used: ends.length,
    underWay: underWay.length,
    nextFreeSlotAt: isoOf(ends[Math.max(0, ends.length - limitOf(state))]),
    refused: refusedOf(shownSends, nowMs - settings.windowMs),
    spacingMs: pace.limit.isSpaced ? pace.limit.spacingMs : undefined,
    isCounting: isCounting || undefined,
    remembersSince: iso(state.rememberedSinceMs),
    paused,
    cancelRefused: cancelRefused || undefined,
    waiting,
    waitingTotal: waiters.length,
    waitingInBatchLane: waiters.filter(({ lane }) => lane === 'batch').length,
    waitingForJob: waiters.length - line.length,
    lastSends: shownSends
      .slice(-Math.min(maxSends, shownSends.length))
      .map((send) => toSend(send, underWay))
      .reverse(),
  });
}

const isoOf = (ms: number | undefined): string | undefined => (ms === undefined ? undefined : iso(ms));

function toSend(send: SendRecord, grants: readonly Grant[]): BudgetSend {
  const { workflowId, sendNumber, grantedAtMs, outcomeAtMs, statusCode } = send;
  const isUnderWay = grants.some((grant) => grant.workflowId === workflowId && grant.sendNumber === sendNumber);
  // No outcome was reported.
  const outcome = send.outcome ?? (isUnderWay ? undefined : 'unknown');
  return defined({
    workflowId,
    sendNumber,
    grantedAt: iso(grantedAtMs),
    outcomeAt: isoOf(outcomeAtMs),
    outcome,
    statusCode,
  });
}

function refusedOf(sends: readonly SendRecord[], sinceMs: number): RefusedMessages[] | undefined {
  const isSent = ({ grantedAtMs, outcome }: SendRecord) =>
    grantedAtMs > sinceMs && outcome !== undefined && outcome !== 'taken' && outcome !== 'notSent';
  const made = sends.filter(isSent);
  const latest = new Map(made.map((send) => [send.workflowId, send]));
  const refused = [...latest.values()].flatMap(({ workflowId, outcome, statusCode }) => {
    const reason = outcome === 'unknown' ? 'outage' : outcome && outcome !== 'taken' && refusalOf(outcome);
    return reason ? [{ workflowId, reason, statusCode }] : [];
  });
  if (refused.length === 0) return undefined;
  // What was accepted before any of them was refused says nothing of them.
  const areRefused = new Set(refused.map(({ workflowId }) => workflowId));
  const first = made.findIndex(({ workflowId }) => areRefused.has(workflowId));
  const areAccepted = made.slice(first).some(({ outcome }) => outcome === 'sent');
  const accepted = areAccepted ? [...latest.values()].filter(({ outcome }) => outcome === 'sent').length : 0;
  const counts = { of: latest.size, accepted };
  const found = new Map<string, RefusedMessages>();
  for (const { reason, statusCode } of refused) {
    const key = `${reason} ${statusCode}`;
    const { messages = 0 } = found.get(key) ?? {};
    found.set(key, defined({ reason, statusCode, messages: messages + 1, ...counts }));
  }
  return [...found.values()];
}

function pausedOf(state: BudgetState, line: readonly Waiter[], nowMs: number): BudgetStatus['paused'] {
  const { operatorPause } = state;
  const servicePause = servicePauseOf(state, line, nowMs);
  const ofOperator = isPausedByOperator(state, nowMs) ? operatorPause : undefined;
  const pauses = [
    ...(ofOperator ? [{ ...ofOperator, reason: 'operator' as const }] : []),
    ...(servicePause ? [servicePause] : []),
  ];
  if (pauses.length === 0) return undefined;
  const untilMs = Math.max(...pauses.map((pause) => pause.untilMs ?? Infinity));
  const isProbed = untilMs <= nowMs;
  return defined({
    reasons: pauses.map(({ reason }) => reason),
    since: iso(Math.min(...pauses.map(({ sinceMs }) => sinceMs))),
    until: untilMs < Infinity && !isProbed ? iso(untilMs) : undefined,
    isProbed: isProbed || undefined,
    statusCode: servicePause?.statusCode,
    note: ofOperator?.note,
  });
}
