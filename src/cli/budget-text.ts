import type { BudgetUpdate } from '../client/index.js';
import { type BudgetSend, type BudgetStatus, formatDuration, parseFollowUpWorkflowId } from '../contract/index.js';
import { clock } from './follow-up-text.js';
import { safeLine } from '../terminal-text.js';

const BAR_WIDTH = 40;
const SHOWN_WAITERS = 20;
const SHOWN_SENDS = 10;

/** A budget for people. Clock times are local. */
export function describeBudget(status: BudgetStatus, now = new Date()): string {
  const { limit, used, windowMs, reserve, unsettled, nextFreeSlotAt, paused } = status;
  const lines = [
    `project    ${safeLine(status.projectId)}`,
    `slots      [${bar(used, limit)}] ${used} of ${limit} used in ${formatDuration(windowMs)}${drainText(status)}`,
    reserve > 0 ? `reserve    ${reserve} kept from the batch lane` : '',
    unsettled > 0 ? `under way  ${unsettled} sent and not settled yet` : '',
    nextFreeSlotAt === undefined ? '' : `next slot  ${clock(nextFreeSlotAt, now)}${countdown(nextFreeSlotAt, now)}`,
    paused === undefined ? '' : `paused     ${describePause(paused, now)}`,
    learnedText(status),
    status.isCounting ? 'counting   it finds out what was sent before it started; nothing is sent yet' : '',
    `waiting    ${describeWaiting(status)}`,
    ...waitingLines(status, now),
    ...sendLines(status, now),
  ];
  return lines.filter(Boolean).join('\n');
}

function learnedText({ learnedLimit }: BudgetStatus): string {
  return learnedLimit === undefined
    ? ''
    : `accepted   about ${learnedLimit} in a window, as the service's refusals tell`;
}

/** Whether a budget sends, in a few words for a list. Clock times are local. */
export function stateOf(
  { paused, limit, used, isCounting, learnedLimit }: Omit<BudgetStatus, 'waiting' | 'lastSends'>,
  now = new Date(),
): string {
  if (paused) {
    const until = paused.until === undefined ? '' : ` until ${clock(paused.until, now)}`;
    return `paused: ${paused.reasons.join(', ')}${until}${paused.note ? ` (${paused.note})` : ''}`;
  }
  if (limit === 0) return 'sends nothing: its limit is 0';
  if (used > limit) return `sends nothing: ${used - limit} slots more than its limit`;
  if (isCounting) return 'sends nothing yet: it counts what was sent before it started';
  return learnedLimit === undefined ? 'sends' : `sends; the service accepts about ${learnedLimit} in a window`;
}

/** An update of a watched budget, in full. */
export function describeBudgetUpdate(projectId: string, update: BudgetUpdate, now = new Date()): string {
  const { state, status, statusUnavailable } = update;
  const warnings = [
    state === 'stopped' ? `STOPPED: nothing is sent until "follow-up budget restore ${projectId}"` : '',
    statusUnavailable === undefined ? '' : `no answer: ${safeLine(statusUnavailable)}${status ? '; last known:' : ''}`,
  ];
  const text = status ? describeBudget(status, now) : state === 'none' ? noBudgetText(projectId) : '';
  return [...warnings, text].filter(Boolean).join('\n');
}

/** An update of a watched budget, in one line that stays the same while nothing notable changes. */
export function summariseBudgetUpdate(projectId: string, { state, status, statusUnavailable }: BudgetUpdate): string {
  if (!status) {
    return statusUnavailable === undefined ? noBudgetText(projectId) : `no answer: ${safeLine(statusUnavailable)}`;
  }
  const { used, limit, unsettled, waitingTotal, nextFreeSlotAt, paused, lastSends } = status;
  const [last] = lastSends;
  return [
    state === 'stopped' ? 'STOPPED' : '',
    statusUnavailable === undefined ? '' : `no answer: ${safeLine(statusUnavailable)}; last known:`,
    `${used} of ${limit} slots used${drainText(status)}`,
    unsettled > 0 ? `${unsettled} under way` : '',
    waitingTotal > 0 ? `waiting ${describeWaiting(status)}` : '',
    nextFreeSlotAt === undefined ? '' : `next slot ${clock(nextFreeSlotAt)}`,
    paused === undefined ? '' : `paused: ${describePause(paused)}`,
    last ? `last send ${clock(last.grantedAt)} ${outcomeText(last)} ${safeLine(last.workflowId)}` : '',
  ]
    .filter(Boolean)
    .join(', ');
}

/** The text for a project that has sent nothing yet. */
export function noBudgetText(projectId: string): string {
  return `project ${projectId} has no budget yet: it gets one with its first follow-up; 0 slots used`;
}

/** One send in the audit, below {@link AUDIT_HEADER}. */
export function describeSend({ workflowId, sendNumber, grantedAt, settledAt, outcome }: BudgetSend): string {
  return [
    grantedAt,
    (settledAt ?? '-').padEnd(24),
    (outcome ?? 'under way').padEnd(12),
    String(sendNumber).padStart(4),
    safeLine(parseFollowUpWorkflowId(workflowId)?.jobId ?? '').padEnd(20),
    safeLine(workflowId),
  ].join('  ');
}

/** Names of the columns of {@link describeSend}. */
export const AUDIT_HEADER = [
  'granted'.padEnd(24),
  'settled'.padEnd(24),
  'outcome'.padEnd(12),
  'send',
  'job'.padEnd(20),
  'workflow',
].join('  ');

function bar(used: number, limit: number): string {
  const filled = limit === 0 ? BAR_WIDTH : Math.min(BAR_WIDTH, Math.ceil((used / limit) * BAR_WIDTH));
  return '#'.repeat(filled).padEnd(BAR_WIDTH, '.');
}

/** Under a lowered limit nothing is sent until enough slots have ended. */
function drainText({ used, limit }: BudgetStatus): string {
  return used > limit ? `; ${used - limit} more than the limit, nothing is sent until they have ended` : '';
}

/** With `now`, also how long it still lasts. */
function describePause({ reasons, since, until, note }: NonNullable<BudgetStatus['paused']>, now?: Date): string {
  const end =
    until === undefined ? ', until it is resumed' : `, until ${clock(until, now)}${now ? countdown(until, now) : ''}`;
  const begin = ` since ${clock(since, now)}`;
  return `${reasons.map(safeLine).join(', ')}${begin}${end}${note ? ` (${safeLine(note)})` : ''}`;
}

function describeWaiting({ waitingTotal, waitingForJob }: BudgetStatus): string {
  return `${waitingTotal - waitingForJob} for a slot, ${waitingForJob} for their job`;
}

function waitingLines({ waiting, waitingTotal }: BudgetStatus, now: Date): string[] {
  const lines = waiting.slice(0, SHOWN_WAITERS).map(({ workflowId, lane, position, expectedAt, refusal }) => {
    const eta = expectedAt === undefined ? '' : `  expected ${clock(expectedAt, now)}${countdown(expectedAt, now)}`;
    const refused = refusal ? `  ${refusal.reason}, tries again ${clock(refusal.until, now)}` : '';
    return `  ${String(position ?? 'job').padStart(4)}  ${lane.padEnd(11)}  ${safeLine(workflowId)}${eta}${refused}`;
  });
  const more = Math.max(waitingTotal, waiting.length) - lines.length;
  return more > 0 && lines.length > 0 ? [...lines, `        … and ${more} more`] : lines;
}

function sendLines({ lastSends }: BudgetStatus, now: Date): string[] {
  if (lastSends.length === 0) return ['last sends none'];
  const lines = lastSends
    .slice(0, SHOWN_SENDS)
    .map(
      (send) =>
        `  ${clock(send.grantedAt, now)}  ${outcomeText(send).padEnd(12)}  ${safeLine(send.workflowId)}${send.sendNumber > 1 ? `, send ${send.sendNumber}` : ''}`,
    );
  return ['last sends', ...lines];
}

function outcomeText({ outcome }: BudgetSend): string {
  return outcome ?? 'under way';
}

function countdown(instant: string, now: Date): string {
  const leftMs = new Date(instant).getTime() - now.getTime();
  return leftMs > 0 ? ` (in ${formatDuration(Math.max(1_000, leftMs))})` : '';
}
