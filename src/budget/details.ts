import type { BudgetSend, BudgetStatus, BudgetWaiter, SendOutcome } from '../contract/budget.js';
import { formatDuration } from '../contract/durations.js';
import { type At, markdownAsOf, markdownCode as code, markdownInstant, REFUSALS } from '../contract/text.js';

export const SHOWN_SENDS = 10;

/**
 * Describes a budget in Markdown. Uses lists because the Temporal UI renders tables without spacing.
 *
 * @param at formats an instant. Default: in UTC, for the Temporal UI
 */
export function describeBudget(
  status: BudgetStatus,
  nowMs: number,
  at: At = (iso) => markdownInstant(iso, nowMs),
): string {
  const { limit, windowMs, used, reserve, unsettled, nextFreeSlotAt } = status;
  const { waiting, waitingTotal, waitingInBatchLane, waitingForJob, lastSends } = status;
  const lines = [`**${describeBudgetState(status, at)}**`, ''];
  const row = (name: string, value: string | number) => lines.push(`- ${name}: ${value}`);
  row('slots', `${used} of ${limit} used in ${formatDuration(windowMs)}`);
  if (reserve > 0) row('reserved for the interactive lane', reserve);
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

/** The state of a budget as one line of Markdown. */
export function describeBudgetState(status: BudgetStatus, at: At): string {
  const { paused, used, nextFreeSlotAt, isCounting, learnedLimit = status.limit } = status;
  const limit = Math.min(status.limit, learnedLimit);
  if (paused) return `paused: ${describePause(paused, at)}`;
  if (isCounting) return 'sends nothing yet: it is counting earlier sends';
  if (limit === 0) return 'sends nothing: its limit is 0';
  if (used > limit) return `sends nothing until ${used - limit + 1} slots expire: more are in use than its limit`;
  const learned = status.learnedLimit === undefined ? '' : '; the service seems to accept no more';
  if (used < limit || nextFreeSlotAt === undefined)
    return `sends: ${limit - used} of ${limit} slots are free${learned}`;
  return `all ${limit} slots are used until ${at(nextFreeSlotAt)}${learned}`;
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
  if (reason) return `${REFUSALS[reason].fix}; it continues automatically. To try at once: ${resume}`;
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
  unknown: '**unknown** whether it was delivered',
  taken: 'taken for other messages',
};

function describeSend({ grantedAt, outcome, workflowId, sendNumber }: BudgetSend, at: At): string {
  const what = outcome === undefined ? 'being sent' : OUTCOMES[outcome];
  return `- ${at(grantedAt)}: ${outcome === 'taken' ? `${sendNumber} ` : ''}${what}, ${code(workflowId)}`;
}
