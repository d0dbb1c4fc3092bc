import {
  type BudgetSend,
  type BudgetStatus,
  type BudgetWaiter,
  formatDuration,
  type PauseReason,
} from '../contract/index.js';
import { markdownAsOf, markdownCode as code, markdownInstant } from '../contract/text.js';

/** Most waiters, and most sends, that the current details list. */
export const SHOWN_LINES = 10;

/** A budget as the Temporal UI shows it, in Markdown. Uses lists because the UI renders tables without spacing. */
export function describeBudget(status: BudgetStatus, nowMs: number): string {
  const { limit, windowMs, used, reserve, unsettled, waitingTotal, waitingInBatchLane, waitingForJob } = status;
  const at = (iso: string) => markdownInstant(iso, nowMs);
  const lines = [`**${describeState(status, at)}**`, ''];
  lines.push(`- slots: ${used} of ${limit} used in ${formatDuration(windowMs)}`);
  if (reserve > 0) lines.push(`- kept from the batch lane: ${reserve}`);
  if (unsettled > 0) lines.push(`- being sent: ${unsettled}`);
  if (status.nextFreeSlotAt) lines.push(`- next slot ends: ${at(status.nextFreeSlotAt)}`);
  if (status.pacedEveryMs !== undefined) {
    lines.push(
      `- slowed down because the service refused messages: one message every ${formatDuration(status.pacedEveryMs)}`,
    );
  }
  const lanes =
    waitingTotal === 0 ? '' : `, ${waitingInBatchLane} of them in the batch lane, ${waitingForJob} for their job`;
  lines.push(`- waiting: ${waitingTotal}${lanes}`);
  const step = nextStep(status);
  if (step !== undefined) lines.push(`- to do: ${step}`);
  if (status.waiting.length > 0) {
    lines.push('', '**Waiting**', '');
    for (const waiter of status.waiting.slice(0, SHOWN_LINES)) lines.push(describeWaiter(waiter, at));
  }
  if (status.lastSends.length > 0) {
    lines.push('', '**Last sends**', '');
    for (const send of status.lastSends.slice(0, SHOWN_LINES)) lines.push(describeSend(send, at));
  }
  lines.push('', markdownAsOf(nowMs));
  return lines.join('\n');
}

/** What ends a pause without an end time. */
export function describePauseEnd(reasons: readonly PauseReason[]): string {
  return reasons.includes('operator') ? 'it is resumed' : 'the key is accepted again';
}

type At = (iso: string) => string;

function describeState({ paused, limit, used, nextFreeSlotAt, assumedFullUntil }: BudgetStatus, at: At): string {
  if (paused) return `paused: ${describePause(paused, at)}`;
  if (limit === 0) return 'sends nothing: its limit is 0';
  if (assumedFullUntil !== undefined) {
    return `sends nothing until ${at(assumedFullUntil)}: the previous budget was deleted, and its slots count as used`;
  }
  if (used > limit) return `sends nothing until ${used - limit} slots have ended: its limit was lowered`;
  if (used < limit || nextFreeSlotAt === undefined) return `sends: ${limit - used} of ${limit} slots are free`;
  return `all slots are used until ${at(nextFreeSlotAt)}`;
}

const PAUSED_BY: Readonly<Record<PauseReason, string>> = {
  operator: 'by an operator',
  limited: 'the service refuses more messages (429)',
  credentials: 'the service refuses the API key, or there is none',
};

function describePause({ reasons, since, until, note }: NonNullable<BudgetStatus['paused']>, at: At): string {
  return [
    reasons.map((reason) => PAUSED_BY[reason]).join(', and '),
    since && `since ${at(since)}`,
    until ? `until ${at(until)}` : `until ${describePauseEnd(reasons)}`,
    note && `(${code(note)})`,
  ]
    .filter(Boolean)
    .join(' ');
}

function nextStep({ projectId, paused, limit }: BudgetStatus): string | undefined {
  const resume = `\`follow-up budget resume ${projectId}\``;
  if (paused?.reasons.includes('operator')) return `${resume}, if the pause is no longer wanted`;
  if (paused?.reasons.includes('credentials')) return `give the workers a valid key for the project, then ${resume}`;
  if (paused) return `nothing: it continues by itself. To try at once: ${resume}`;
  return limit === 0 ? `\`follow-up budget set ${projectId} --limit 100\`` : undefined;
}

function describeWaiter({ position, jobId, lane, expectedAt }: BudgetWaiter, at: At): string {
  const place = position === undefined ? 'job busy' : `position ${position}`;
  return `- ${place}: ${code(jobId)}, ${lane} lane${expectedAt ? `, expected ${at(expectedAt)}` : ''}`;
}

const OUTCOMES: Readonly<Record<NonNullable<BudgetSend['outcome']>, string>> = {
  sent: 'delivered',
  notSent: 'not sent',
  rejected: 'refused by the service',
  unauthorized: 'the key was refused',
  limited: 'refused: too many (429)',
  unknown: '**not known** whether it was delivered',
};

function describeSend({ grantedAt, outcome, workflowId }: BudgetSend, at: At): string {
  return `- ${at(grantedAt)}: ${outcome === undefined ? 'being sent' : OUTCOMES[outcome]}, ${code(workflowId)}`;
}
