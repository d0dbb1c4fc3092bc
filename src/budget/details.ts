import { formatDuration, type BudgetStatus, type PauseReason } from '../contract/index.js';
import { markdownCode } from '../contract/markdown.js';

/** Waiters and sends that the current details list. */
const SHOWN_LINES = 10;

/** What is shown of a budget in the Temporal UI, as Markdown. Ids match a pattern, so they need no escaping. */
export function describeBudget(status: BudgetStatus, nowMs: number): string {
  const { limit, windowMs, used, reserve, unsettled, waitingTotal, waitingForJob, paused, nextFreeSlotAt } = status;
  const lines = [`**${used} of ${limit} slots used** in ${formatDuration(windowMs)}`, ''];
  if (reserve > 0) lines.push(`- reserved for the interactive lane: ${reserve}`);
  if (unsettled > 0) lines.push(`- being sent: ${unsettled}`);
  if (nextFreeSlotAt) lines.push(`- next slot ends: ${clock(nextFreeSlotAt)}`);
  if (paused) lines.push(`- **paused**: ${describePause(paused, nowMs)}`);
  lines.push(`- waiting: ${waitingTotal}${waitingForJob > 0 ? ` (${waitingForJob} for their job)` : ''}`);
  if (status.waiting.length > 0) {
    lines.push('', '| position | lane | job | expected |', '|---|---|---|---|');
    for (const waiter of status.waiting.slice(0, SHOWN_LINES)) {
      const expected = waiter.expectedAt ? clock(waiter.expectedAt) : '';
      lines.push(`| ${waiter.position ?? 'job busy'} | ${waiter.lane} | ${waiter.jobId} | ${expected} |`);
    }
  }
  if (status.lastSends.length > 0) {
    lines.push('', '| granted | job | outcome | follow-up |', '|---|---|---|---|');
    for (const send of status.lastSends.slice(0, SHOWN_LINES)) {
      lines.push(`| ${clock(send.grantedAt)} | ${send.jobId} | ${send.outcome ?? 'being sent'} | ${send.workflowId} |`);
    }
  }
  lines.push('', `_As of ${clock(new Date(nowMs).toISOString())} UTC._`);
  return lines.join('\n');
}

/** What ends a pause that has no end of its own. */
export function describePauseEnd(reasons: readonly PauseReason[]): string {
  return reasons.includes('operator') ? 'it is resumed' : 'the key is accepted again';
}

function describePause({ reasons, since, until, note }: NonNullable<BudgetStatus['paused']>, nowMs: number): string {
  return [
    reasons.join(', '),
    since && `since ${dayAndClock(since, nowMs)}`,
    until ? `until ${dayAndClock(until, nowMs)}` : `until ${describePauseEnd(reasons)}`,
    note && `(${markdownCode(note)})`,
  ]
    .filter(Boolean)
    .join(' ');
}

/** The clock time, with the day before it where that is not today's (UTC). */
function dayAndClock(iso: string, nowMs: number): string {
  const day = iso.slice(0, 10);
  return day === new Date(nowMs).toISOString().slice(0, 10) ? clock(iso) : `${day} ${clock(iso)}`;
}

/** `12:40:05` of an ISO 8601 instant. */
function clock(iso: string): string {
  return iso.slice(11, 19);
}
