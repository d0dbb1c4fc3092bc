import type { FollowUpSummary, FollowUpUpdate, LiveProgress, WorkflowTrouble } from '../client/index.js';
import { type FollowUpResult, type FollowUpState, isEndState } from '../contract/index.js';
import { ExitCode } from './cli.js';
import { safeLine } from '../terminal-text.js';
import { BLOCKED, nextStep } from '../follow-up/details.js';

/** A result for people. */
export function describeResult(workflowId: string, result: FollowUpResult): string {
  const { status, prLink, prLinkChanged, delivery, observedActive, polls, sentAt, finishedAt } = result;
  return [
    `status        ${status}`,
    `pull request  ${prLink === null ? 'none' : safeLine(prLink)}${prLinkChanged ? ' (new)' : ''}`,
    // A job may begin and end between two looks. Worth mentioning only if there is no other trace of its work.
    `delivery      ${delivery}${observedActive || prLinkChanged ? '' : '; the job was never seen working, and its pull request has not changed'}`,
    `sent          ${localTime(sentAt)}`,
    `finished      ${localTime(finishedAt)} after ${polls} ${polls === 1 ? 'poll' : 'polls'}`,
    `workflow      ${workflowId}`,
  ].join('\n');
}

/** One line of {@link describeResult}. */
export function summariseResult({ status, prLink }: FollowUpResult): string {
  return `job ${status}${prLink === null ? ', no pull request' : `, ${safeLine(prLink)}`}`;
}

/** An archived job counts as success: the message was sent. */
export function exitCodeOf({ status }: FollowUpResult): ExitCode {
  return status === 'failed' ? ExitCode.jobFailed : ExitCode.ok;
}

/** What a person sees of an update. */
export interface ProgressText {
  /** State, place in the queue, job status, last error: a change is worth a new line. */
  headline: string;
  /** Times and counts, which change all the time. */
  timing: string;
}

const STATE_TEXT: Record<FollowUpState, string> = {
  'waiting-for-budget': 'waits for a slot of the project budget',
  'waiting-for-job': 'waits for the job, which works on something else',
  sending: 'sending',
  reconciling: 'finding out whether the message was delivered',
  polling: 'sent',
  blocked: 'blocked',
  completed: 'completed',
  archived: 'archived',
  'job-failed': 'job-failed',
  'not-sent': 'not-sent',
  'delivery-unknown': 'delivery-unknown',
  cancelled: 'cancelled',
  'timed-out': 'timed-out',
};

/** One word for the state of a follow-up. Temporal's word if it ended without its own, for example when terminated. */
export function standingOf({ status, state }: FollowUpSummary): string {
  if (status === 'running') return state ?? 'starting';
  return state !== undefined && isEndState(state) ? state : status;
}

/** What blocks a workflow, and how to fix it. */
export function describeTrouble({ workflowId, what, fix }: WorkflowTrouble): string {
  return `${safeLine(`${workflowId} ${what}`)}\n  -> ${safeLine(fix)}`;
}

/** An update for people. Clock times are local. */
export function describeUpdate({ summary, progress, progressUnavailable, asOf }: FollowUpUpdate): ProgressText {
  if (progress) return { headline: headlineOf(progress), timing: timingOf(progress) };
  const known = [
    summary.state && STATE_TEXT[summary.state],
    summary.jobStatus && `job ${safeLine(summary.jobStatus)}`,
    summary.state && asOf && `as of ${clock(asOf)}`,
  ];
  const last = known.filter(Boolean).join(', ');
  return {
    headline: `progress unavailable: ${safeLine(progressUnavailable ?? 'no answer')}${last ? `; last known: ${last}` : ''}`,
    timing: '',
  };
}

function headlineOf(progress: LiveProgress): string {
  const { state, waitReason, position, jobStatus, failure, lastError, overdue } = progress;
  const why = waitReason === undefined ? undefined : BLOCKED[waitReason];
  const parts = [
    state === 'blocked' ? `blocked: ${why ?? waitReason}${pauseText(progress)}` : STATE_TEXT[state],
    state === 'blocked' ? undefined : why,
    position === undefined ? undefined : `position ${position}`,
    jobStatus === undefined ? undefined : `job ${safeLine(jobStatus)}`,
    failure ? safeLine(`${failure.type}: ${failure.message}`) : undefined,
    overdue === undefined ? undefined : `overdue: ${safeLine(overdue)}`,
    lastError === undefined ? undefined : `last error: ${safeLine(lastError.message)}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

/** By whom, until when and why, if known. */
function pauseText({ pause }: LiveProgress): string {
  if (!pause) return '';
  if (pause.by === 'service') return pause.until === undefined ? '' : `, it tries again ${clock(pause.until)}`;
  const until = pause.until === undefined ? 'until it is resumed' : `until ${clock(pause.until)}`;
  return ` by an operator ${until}${pause.note ? ` (${safeLine(pause.note)})` : ''}`;
}

function timingOf(progress: LiveProgress): string {
  const { expectedSendAt, sentAt, polls, nextPollAt, nextTryAt, state, asOf, waitsUntil } = progress;
  const parts = [
    sentAt === undefined && expectedSendAt !== undefined ? `send expected ${clock(expectedSendAt)}` : undefined,
    sentAt === undefined ? undefined : `sent ${clock(sentAt)}`,
    polls > 0 ? `${polls} ${polls === 1 ? 'poll' : 'polls'}` : undefined,
    isEndState(state) || nextPollAt === undefined ? undefined : `next poll ${clock(nextPollAt)}`,
    nextTryAt === undefined ? undefined : `tries again ${clock(nextTryAt)}`,
    state === 'reconciling' && waitsUntil !== undefined ? `decides ${clock(waitsUntil)}` : undefined,
    asOf === undefined ? undefined : `as of ${clock(asOf)}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

/** What a person can do about a follow-up that does not continue on its own; empty if there is nothing to do. */
export function wayOut(progress: LiveProgress | undefined, workflowId: string): string {
  if (!progress) return '';
  const { state, waitReason } = progress;
  const isUnreadable = state === 'polling' && waitReason !== undefined;
  if (state !== 'blocked' && state !== 'reconciling' && !isUnreadable && !progress.failure) return '';
  const step = nextStep(isUnreadable ? { ...progress, state: 'blocked', waitReason } : progress, workflowId);
  // Commands are code in Markdown.
  return step === undefined ? '' : safeLine(step.replaceAll('`', ''));
}

/** Local time of day with its offset, and the date if it is not today. */
export function clock(instant: string, now = new Date()): string {
  const date = new Date(instant);
  if (Number.isNaN(date.getTime())) return safeLine(instant);
  const [day, time] = localParts(date);
  return day === localParts(now)[0] ? time : `${day} ${time}`;
}

/** Local date and time with its offset: `2026-11-22 14:05:09 +01:00`. */
export function localTime(instant: string): string {
  const date = new Date(instant);
  return Number.isNaN(date.getTime()) ? safeLine(instant) : localParts(date).join(' ');
}

function localParts(date: Date): [day: string, time: string] {
  const offsetMin = -date.getTimezoneOffset();
  const local = new Date(date.getTime() + offsetMin * 60_000).toISOString();
  const two = (count: number) => String(Math.floor(count)).padStart(2, '0');
  const offset = `${offsetMin < 0 ? '-' : '+'}${two(Math.abs(offsetMin) / 60)}:${two(Math.abs(offsetMin) % 60)}`;
  return [local.slice(0, 10), `${local.slice(11, 19)} ${offset}`];
}
