import { type At, DELIVERED, type Description, markdownCode as code, type Row } from '../common/index.js';
import {
  type BudgetSend,
  type BudgetStatus,
  type BudgetWaiter,
  formatDuration,
  type RefusedMessages,
  type SendOutcome,
} from '../contract/index.js';
import { describeRefusal, REFUSALS, REFUSED_ALONE } from '../protocol/index.js';

export const SHOWN_SENDS = 10;

export function describeBudget(status: BudgetStatus, at: At): Description {
  const { limit, windowMs, used, reserve, underWay, nextFreeSlotAt, cancelRefused } = status;
  const { waiting, waitingTotal, waitingInBatchLane, waitingForJob, lastSends, paused, refused = [] } = status;
  const sends = lastSends.slice(0, SHOWN_SENDS).map((send) => describeSend(send, at));
  const lanes = `, ${waitingInBatchLane} of them in the batch lane, ${waitingForJob} for their job`;
  const rows: Row[] = [
    ['slots', `${used} of ${limit} used in ${formatDuration(windowMs)}`],
    ['reserved', reserve > 0 && `${reserve} for the interactive lane`],
    ['being sent', underWay > 0 && String(underWay)],
    ['next slot', nextFreeSlotAt && at(nextFreeSlotAt)],
    ['waiting', `${waitingTotal}${waitingTotal === 0 ? '' : lanes}`],
    ['cancel', cancelRefused && 'refused, because follow-ups depend on this budget'],
    ['refused or unclear', !paused && refused.length > 0 && describeRefused(refused)],
  ];
  return {
    headline: headlineOf(status, at),
    rows,
    live: [...rows, ['last send', sends[0]]],
    nextSteps: nextSteps(status),
    lists: [
      ['Waiting', waiting.map((waiter) => describeWaiter(waiter, at))],
      ['Last sends', sends],
    ],
  };
}

function headlineOf(status: BudgetStatus, at: At): string {
  const { paused, limit, used, nextFreeSlotAt, isCounting, spacingMs } = status;
  if (paused) return `paused: ${describePause(status, paused, at)}`;
  if (isCounting) return 'sends nothing yet: it is counting earlier sends';
  if (limit === 0) return 'sends nothing: its limit is 0';
  if (used > limit && nextFreeSlotAt !== undefined)
    return `sends nothing until ${at(nextFreeSlotAt)}: ${used} slots are in use, more than its limit of ${limit}`;
  if (used >= limit && nextFreeSlotAt !== undefined) return `all ${limit} slots are used until ${at(nextFreeSlotAt)}`;
  const spaced =
    spacingMs === undefined ? '' : `, one message every ${formatDuration(spacingMs)}: the service answered 429`;
  return `sends: ${limit - used} of ${limit} slots are free${spaced}`;
}

/** `403 to 8 of 28 messages (others are accepted)` */
function describeRefused(refused: readonly RefusedMessages[]): string {
  const texts = refused.map(({ statusCode, messages, of }) => {
    return `${statusCode ?? 'no response'} to ${messages} of ${of} message${of === 1 ? '' : 's'}`;
  });
  return `${texts.join(', ')}${refused[0]?.accepted ? ' (others are accepted)' : ''}`;
}

function describePause(
  { refused = [], waitingTotal }: BudgetStatus,
  { reasons, since, until, isProbed, statusCode, note }: NonNullable<BudgetStatus['paused']>,
  at: At,
): string {
  const why = reasons
    .map((reason) => {
      if (reason === 'operator') return 'by an operator';
      const refusedSo = refused.filter((each) => each.reason === reason);
      if (refusedSo.length === 0) return describeRefusal(reason, statusCode);
      return `${reason === 'outage' ? `${REFUSALS.outage.what}:` : 'the service answers'} ${describeRefused(refusedSo)}`;
    })
    .join(', and ');
  const isOperators = reasons.includes('operator');
  const early = !isOperators && reasons.includes('limited') ? ', or earlier when a turn ends' : '';
  let end = isProbed ? 'a message is tried now' : 'until it is resumed';
  if (until !== undefined) end = `${isOperators ? 'until' : 'tries again'} ${at(until)}${early}`;
  const idle = waitingTotal > 0 || isOperators ? '' : '; nobody waits';
  return `${why} since ${at(since)}, ${end}${idle}${note === undefined ? '' : ` (${code(note)})`}`;
}

function nextSteps({ projectId, paused, limit, cancelRefused }: BudgetStatus): string[] {
  const resume = `\`follow-up budget resume ${projectId}\``;
  const [reason] = paused?.reasons ?? [];
  if (reason === 'operator') return [`${resume}, if the pause is no longer wanted`];
  if (reason) return [`${REFUSALS[reason].fix}; it continues automatically`, `to try at once: ${resume}`];
  if (limit === 0) return [`\`follow-up budget set ${projectId} --limit 100\``];
  return cancelRefused ? [`to stop sending: \`follow-up budget pause ${projectId}\``] : [];
}

function describeWaiter({ position, workflowId, lane, expectedAt, refusal }: BudgetWaiter, at: At): string {
  const place = position === undefined ? 'job busy' : `position ${position}`;
  const expected = expectedAt ? `, expected ${at(expectedAt)}` : '';
  const { reason, statusCode, until } = refusal ?? {};
  const what = reason && `, ${describeRefusal(reason, statusCode)}, ${REFUSED_ALONE.what}`;
  const refused = until === undefined ? '' : `${what}, tries again ${at(until)}`;
  return `${place}: ${code(workflowId)}, ${lane} lane${expected}${refused}`;
}

const OUTCOMES: Readonly<Record<SendOutcome | 'taken', string>> = {
  sent: DELIVERED.yes,
  notSent: 'not sent',
  rejected: 'refused by the service',
  notFound: 'refused (404)',
  credentials: 'refused (401 or 403)',
  limited: 'refused (429)',
  payment: 'refused (402)',
  unknown: DELIVERED.unknown,
  taken: 'taken for other messages',
};

function describeSend({ grantedAt, outcome, workflowId, sendNumber }: BudgetSend, at: At): string {
  const what = outcome === undefined ? 'being sent' : OUTCOMES[outcome];
  return `${at(grantedAt)}: ${outcome === 'taken' ? `${sendNumber} ` : ''}${what}, ${code(workflowId)}`;
}
