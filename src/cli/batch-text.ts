import type { LiveBatchStatus } from '../client/index.js';
import { type BatchItem, type BatchStatus, type FollowUpBatchResult, formatDuration } from '../contract/index.js';
import { ExitCode } from './cli.js';
import { clock, type ProgressText } from './follow-up-text.js';
import { safeLine } from '../terminal-text.js';

/** How many failed items and pull requests are listed; the reports have all. */
export const SHOWN_FAILURES = 20;
const SHOWN_LINKS = 20;

/** Counts of a batch, both while it runs and in its result. */
type Counts = Pick<
  FollowUpBatchResult,
  'total' | 'completed' | 'archived' | 'failed' | 'errors' | 'unknown' | 'errorsByType'
>;

/** Exit code of a batch that has ended. */
export function exitCodeOfBatch({ failed, errors, cancelled }: FollowUpBatchResult): ExitCode {
  if (errors > 0 || cancelled === true) return ExitCode.followUpFailed;
  return failed > 0 ? ExitCode.jobFailed : ExitCode.ok;
}

/** Whether an item needs attention: its agent job failed, or it ended without a result. */
export function isFailure({ status, error }: BatchItem): boolean {
  return status === 'failed' || error !== undefined;
}

/** Progress of a batch: its counts, and when it is expected to end. Clock times are local. */
export function describeBatchProgress(status: LiveBatchStatus, now = new Date()): ProgressText {
  const { total, open, waitingToStart, sealed, cancelled } = status;
  const headline = [
    `${doneCount(status)} of ${total} done${countsText(status)}`,
    open > 0 ? openText(status) : '',
    waitingToStart > 0 ? `${waitingToStart} not started` : '',
    sealed ? '' : 'more items can come',
    cancelled ? 'cancelled' : '',
  ];
  const timing = [nextSendText(status, now), endText(status, now)];
  return {
    headline: [...headline, ...silentTexts(status)].filter(Boolean).join(', '),
    timing: timing.filter(Boolean).join(', '),
  };
}

/** A batch for people; `failures` are the first of its failures. */
export function describeBatch(status: LiveBatchStatus, failures: readonly BatchItem[], now = new Date()): string {
  const { batchId, total, waitingToStart, startedAt, lastEndedAt, ended, cancelled, sealed, maxOpen } = status;
  if (status.cutOff !== undefined) return describeCutOff(status, failures, now);
  const lines: [name: string, text: string][] = [
    ['batch', `${safeLine(batchId)}, ${ended ? 'ended' : 'running'}${cancelled ? ', cancelled' : ''}`],
    ['done', `${doneCount(status)} of ${total}${countsText(status)}`],
    ['open', ended ? '' : `${openText(status)}, at most ${maxOpen} at a time`],
    ['not started', ended ? '' : `${waitingToStart}${sealed ? '' : '; more items can come'}`],
    ['started', clock(startedAt, now)],
    ['ended', ended && lastEndedAt !== undefined ? clock(lastEndedAt, now) : ''],
    ['next', ended ? '' : nextSendText(status, now)],
    ...silentTexts(status).map((text): [string, string] => ['overdue', text]),
    ['end', ended ? '' : endText(status, now)],
  ];
  return [
    ...lines.filter(([, text]) => text !== '').map(([name, text]) => `${name.padEnd(13)}${text}`),
    ...failureLines(status, failures),
  ].join('\n');
}

/** A batch that was terminated: its last known state, and what still runs. */
function describeCutOff(status: BatchStatus, failures: readonly BatchItem[], now: Date): string {
  const { batchId, total, waitingToStart, open, startedAt, stillRunning, cutOff = '' } = status;
  const going =
    stillRunning === undefined
      ? `some may still run: follow-up list --batch ${safeLine(batchId)}`
      : `${stillRunning} ${stillRunning === 1 ? 'follow-up runs' : 'follow-ups run'} still${stillRunning > 0 ? `: follow-up list --batch ${safeLine(batchId)}` : ''}`;
  return [
    `batch        ${safeLine(batchId)}, ${safeLine(cutOff)}: it has no result, and nothing more is started`,
    `done         ${doneCount(status)} of ${total}${countsText(status)}, as it knew at its end`,
    `cut off      ${open} were open, ${waitingToStart} not started; ${going}`,
    `started      ${clock(startedAt, now)}`,
    ...failureLines(status, failures),
  ].join('\n');
}

/** A batch that has ended, for people. */
export function describeBatchResult(batchId: string, result: FollowUpBatchResult): string {
  const failures = result.items.filter(isFailure).slice(0, SHOWN_FAILURES);
  return [
    `${safeLine(batchId)}: ${summariseBatchResult(result)}`,
    ...linkLines(result.items),
    ...failureLines(result, failures),
  ].join('\n');
}

/** The first line of {@link describeBatchResult}, without the id. */
function summariseBatchResult(result: FollowUpBatchResult): string {
  const { total, cancelled } = result;
  return `${doneCount(result)} of ${total} done${countsText(result)}${cancelled === true ? ', cancelled' : ''}`;
}

function doneCount({ completed, archived, failed, errors }: Counts): number {
  return completed + archived + failed + errors;
}

/** `: 10 completed, 1 failed, 2 without a result (DeliveryUnknown 2)`, or nothing if nothing has ended. */
function countsText(counts: Counts): string {
  const { completed, archived, failed, errors, errorsByType } = counts;
  const types = Object.entries(errorsByType)
    .filter(([, count]) => count > 0)
    .map(([type, count]) => `${safeLine(type)} ${count}`);
  const parts = [
    completed > 0 ? `${completed} completed` : '',
    archived > 0 ? `${archived} archived` : '',
    failed > 0 ? `${failed} failed` : '',
    errors > 0 ? `${errors} without a result (${types.join(', ')})` : '',
  ].filter(Boolean);
  return parts.length > 0 ? `: ${parts.join(', ')}` : '';
}

function openText({ open, waitingForBudget = 0 }: BatchStatus): string {
  return `${open} open${waitingForBudget > 0 ? `, ${waitingForBudget} of them waiting for budget` : ''}`;
}

function endText({ ended, expectedEndAt }: LiveBatchStatus, now: Date): string {
  if (ended || expectedEndAt === undefined) return '';
  const leftMs = new Date(expectedEndAt).getTime() - now.getTime();
  return `expected ${clock(expectedEndAt, now)}${leftMs > 0 ? ` (in ${formatDuration(Math.max(1_000, leftMs))})` : ''}`;
}

function nextSendText({ nextSend }: LiveBatchStatus, now: Date): string {
  if (!nextSend) return '';
  const { position, expectedAt } = nextSend;
  return `next send at position ${position}${expectedAt === undefined ? '' : `, expected ${clock(expectedAt, now)}`}`;
}

function silentTexts({ budgetsSilent = {} }: LiveBatchStatus): string[] {
  return Object.entries(budgetsSilent).map(([projectId, reason]) =>
    safeLine(`the budget of ${projectId} does not answer: ${reason}`),
  );
}

function linkLines(items: readonly BatchItem[]): string[] {
  const linked = items.filter(({ prLink }) => prLink !== undefined && prLink !== null);
  const lines = linked
    .slice(0, SHOWN_LINKS)
    .map(({ workflowId, prLink }) => `  ${safeLine(workflowId)}  ${safeLine(prLink ?? '')}`);
  const more = linked.length - lines.length;
  return more > 0 ? [...lines, `  and ${more} more pull requests; --json and --csv have them all`] : lines;
}

function failureLines({ failed, errors }: Counts, failures: readonly BatchItem[]): string[] {
  const more = failed + errors - failures.length;
  return [...failures.map(failureLine), ...(more > 0 ? [`  and ${more} more; --json and --csv have them all`] : [])];
}

/** The workflow id is what other commands accept, and identifies the item. */
function failureLine({ workflowId, error }: BatchItem): string {
  const reason = error
    ? `${safeLine(error.type)}: ${safeLine(error.message)} (delivered: ${error.delivered})`
    : 'the agent job failed';
  return `  ${safeLine(workflowId)}  ${reason}`;
}
