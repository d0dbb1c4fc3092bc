import { type BudgetStatus, formatDuration } from '../contract/index.js';
import { clock } from './progress-text.js';
import { safeLine } from './safe-text.js';

const BAR_WIDTH = 40;
const SHOWN_WAITERS = 20;
const SHOWN_SENDS = 10;

/** A budget for people. Clock times are local. */
export function describeBudget(status: BudgetStatus): string {
  const { limit, used, windowMs, reserve, unsettled, nextFreeSlotAt, paused } = status;
  const lines = [
    `project    ${status.projectId}`,
    `slots      [${bar(used, limit)}] ${used} of ${limit} used in ${formatDuration(windowMs)}`,
    reserve > 0 ? `reserve    ${reserve} kept from the batch lane` : '',
    unsettled > 0 ? `under way  ${unsettled} sent and not settled yet` : '',
    nextFreeSlotAt === undefined ? '' : `next slot  ${clock(nextFreeSlotAt)}`,
    paused === undefined ? '' : `paused     ${describePause(paused)}`,
    `waiting    ${status.waitingTotal} for a slot, ${status.waitingForJob} for their job`,
    ...waitingLines(status),
    ...sendLines(status),
  ];
  return lines.filter(Boolean).join('\n');
}

function bar(used: number, limit: number): string {
  const filled = limit === 0 ? BAR_WIDTH : Math.min(BAR_WIDTH, Math.ceil((used / limit) * BAR_WIDTH));
  return '#'.repeat(filled).padEnd(BAR_WIDTH, '.');
}

function describePause({ reasons, until }: NonNullable<BudgetStatus['paused']>): string {
  return `${reasons.map(safeLine).join(', ')}${until === undefined ? '' : `, until ${clock(until)}`}`;
}

function waitingLines({ waiting, waitingTotal, waitingForJob }: BudgetStatus): string[] {
  const lines = waiting.slice(0, SHOWN_WAITERS).map(({ workflowId, lane, position, expectedAt }) => {
    const eta = expectedAt === undefined ? '' : `  expected ${clock(expectedAt)}`;
    return `  ${String(position ?? 'job').padStart(4)}  ${lane.padEnd(11)}  ${safeLine(workflowId)}${eta}`;
  });
  const more = Math.max(waitingTotal + waitingForJob, waiting.length) - lines.length;
  return more > 0 && lines.length > 0 ? [...lines, `        … and ${more} more`] : lines;
}

function sendLines({ lastSends }: BudgetStatus): string[] {
  if (lastSends.length === 0) return ['last sends none'];
  const lines = lastSends
    .slice(0, SHOWN_SENDS)
    .map(
      ({ workflowId, grantedAt, outcome, sendNumber }) =>
        `  ${clock(grantedAt)}  ${(outcome ?? 'under way').padEnd(12)}  ${safeLine(workflowId)}${sendNumber > 1 ? `, send ${sendNumber}` : ''}`,
    );
  return ['last sends', ...lines];
}
