import { defined } from '../contract/defined.js';
import { formatDuration, iso } from '../contract/durations.js';
import { type At, markdownAsOf, markdownCode as code, markdownInstant, REFUSALS } from '../contract/text.js';
import type { BudgetSend, BudgetStatus, BudgetWaiter, SendOutcome } from '../contract/budget.js';
import { type Budget, isHeld } from './budget.js';
import type { Grant, SendRecord } from './state.js';

/** Most waiters that a status lists. */
const LISTED_WAITERS = 20;
/** Most sends that the details show. */
export const SHOWN_SENDS = 10;

/** How much of a budget its status lists. */
export interface StatusExtent {
  /** Workflow id of a follow-up that is listed wherever it stands. */
  about?: string | undefined;
  /** Most sends. @default all that the budget keeps */
  mostSends?: number;
}

/** The status of a budget at `nowMs`. Changes nothing. */
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
  // Nobody said how it ended.
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

/**
 * A budget for people, in Markdown. Uses lists because the Temporal UI renders tables without spacing.
 *
 * @param at writes an instant. Default: in UTC, for the Temporal UI
 */
export function describeBudget(
  status: BudgetStatus,
  nowMs: number,
  at: At = (iso) => markdownInstant(iso, nowMs),
): string {
  const { limit, windowMs, used, reserve, unsettled, learnedLimit, nextFreeSlotAt } = status;
  const { waiting, waitingTotal, waitingInBatchLane, waitingForJob, lastSends } = status;
  const lines = [`**${describeState(status, at)}**`, ''];
  const row = (name: string, value: string | number) => lines.push(`- ${name}: ${value}`);
  row('slots', `${used} of ${limit} used in ${formatDuration(windowMs)}`);
  if (learnedLimit !== undefined) row('accepted by the service', `about ${learnedLimit}, as its refusals tell`);
  if (reserve > 0) row('kept from the batch lane', reserve);
  if (unsettled > 0) row('being sent', unsettled);
  if (nextFreeSlotAt !== undefined) row('next slot is free', at(nextFreeSlotAt));
  const lanes = `, ${waitingInBatchLane} of them in the batch lane, ${waitingForJob} for their job`;
  row('waiting', `${waitingTotal}${waitingTotal === 0 ? '' : lanes}`);
  const step = nextStep(status);
  if (step !== undefined) row('to do', step);
  if (waiting.length > 0) lines.push('', '**Waiting**', '', ...waiting.map((waiter) => describeWaiter(waiter, at)));
  const sends = lastSends.slice(0, SHOWN_SENDS).map((send) => describeSend(send, at));
  if (sends.length > 0) lines.push('', '**Last sends**', '', ...sends);
  return [...lines, '', markdownAsOf(nowMs)].join('\n');
}

/** Whether a budget sends, on one line, in Markdown. */
export function describeState(status: BudgetStatus, at: At): string {
  const { paused, used, nextFreeSlotAt, isCounting, learnedLimit = status.limit } = status;
  const limit = Math.min(status.limit, learnedLimit);
  if (isCounting) return 'sends nothing yet: it counts what was sent before it started';
  if (paused) return `paused: ${describePause(paused, at)}`;
  if (limit === 0) return 'sends nothing: its limit is 0';
  if (used > limit) return `sends nothing until ${used - limit} slots are free: more are used than its limit has`;
  if (used < limit || nextFreeSlotAt === undefined) return `sends: ${limit - used} of ${limit} slots are free`;
  return `all slots are used until ${at(nextFreeSlotAt)}`;
}

function describePause({ reasons, since, until, note }: NonNullable<BudgetStatus['paused']>, at: At): string {
  const why = reasons
    .map((reason) => (reason === 'operator' ? 'by an operator' : REFUSALS[reason].what))
    .join(', and ');
  const isOperators = reasons.includes('operator');
  const end = until === undefined ? 'until it is resumed' : `${isOperators ? 'until' : 'tries again'} ${at(until)}`;
  return `${why} since ${at(since)}, ${end}${note === undefined ? '' : ` (${code(note)})`}`;
}

function nextStep({ projectId, paused, limit }: BudgetStatus): string | undefined {
  const resume = `\`follow-up budget resume ${projectId}\``;
  const [reason] = paused?.reasons ?? [];
  if (reason === 'operator') return `${resume}, if the pause is no longer wanted`;
  if (reason) return `${REFUSALS[reason].fix}; it continues by itself. To try at once: ${resume}`;
  return limit === 0 ? `\`follow-up budget set ${projectId} --limit 100\`` : undefined;
}

function describeWaiter({ position, workflowId, lane, expectedAt, refusal }: BudgetWaiter, at: At): string {
  const place = position === undefined ? 'job busy' : `position ${position}`;
  const expected = expectedAt ? `, expected ${at(expectedAt)}` : '';
  const refused = refusal ? `, ${REFUSALS[refusal.reason].what}, tries again ${at(refusal.until)}` : '';
  return `- ${place}: ${code(workflowId)}, ${lane} lane${expected}${refused}`;
}

const OUTCOMES: Readonly<Record<SendOutcome | 'taken', string>> = {
  sent: 'delivered',
  notSent: 'not sent',
  rejected: 'refused by the service',
  unauthorized: 'the key was refused',
  limited: 'refused: too many (429)',
  payment: 'refused: payment required (402)',
  unknown: '**not known** whether it was delivered',
  taken: 'taken for something else',
};

function describeSend({ grantedAt, outcome, workflowId, sendNumber }: BudgetSend, at: At): string {
  const what = outcome === undefined ? 'being sent' : OUTCOMES[outcome];
  return `- ${at(grantedAt)}: ${outcome === 'taken' ? `${sendNumber} ` : ''}${what}, ${code(workflowId)}`;
}
