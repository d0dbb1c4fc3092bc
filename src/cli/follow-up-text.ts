import type { FollowUpSummary, FollowUpUpdate, LiveProgress, WorkflowTrouble } from '../client/index.js';
import { type FollowUpResult, type FollowUpState, isEndState } from '../contract/index.js';
import { nextStep } from '../follow-up/details.js';
import { ExitCode } from './errors.js';
import { safeLine } from './safe-text.js';

/** A result for people. */
export function describeResult(workflowId: string, result: FollowUpResult): string {
  const { status, prLink, prLinkChanged, delivery, observedActive, polls, sentAt, finishedAt } = result;
  return [
    `status        ${status}`,
    `pull request  ${prLink === null ? 'none' : safeLine(prLink)}${prLinkChanged ? ' (new)' : ''}`,
    // Between two looks a job may begin and end: only without any trace of its work that is worth a word.
    `delivery      ${delivery}${observedActive || prLinkChanged ? '' : '; the job was not seen at work, and its pull request has not changed'}`,
    `sent          ${localTime(sentAt)}`,
    `finished      ${localTime(finishedAt)} after ${polls} ${polls === 1 ? 'poll' : 'polls'}`,
    `workflow      ${workflowId}`,
  ].join('\n');
}

/** One line of {@link describeResult}. */
export function summariseResult({ status, prLink }: FollowUpResult): string {
  return `job ${status}${prLink === null ? ', no pull request' : `, ${safeLine(prLink)}`}`;
}

/** An archived job is an end like another: the message was sent. */
export function exitCodeOf({ status }: FollowUpResult): ExitCode {
  return status === 'failed' ? ExitCode.jobFailed : ExitCode.ok;
}

/** What a person sees of an update. */
export interface ProgressText {
  /** State, place in the queue, job status, last error: a change of it is news. */
  headline: string;
  /** Times and counts, which change all the while. */
  timing: string;
}

const STATE_TEXT: Record<FollowUpState, string> = {
  'waiting-for-budget': 'waits for a slot of the project budget',
  'waiting-for-job': 'waits for the job, which is at work on something else',
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

/** One word for where a follow-up stands. Temporal's own word where it ended without showing how, as by a terminate. */
export function standingOf({ status, state }: FollowUpSummary): string {
  if (status === 'running') return state ?? 'starting';
  return state !== undefined && isEndState(state) ? state : status;
}

const BLOCKED_TEXT: Record<string, string> = {
  paused: 'the project is paused',
  credentials: 'the service refuses the API key',
  'queue-full': "the project's queue is full",
  'gate-stopped': "the project's budget workflow is stopped",
  'budget-silent': "the project's budget does not answer; follow-up doctor says why",
  service: 'the service does not answer as it should',
};

/** What keeps a workflow from going on, and the way out. */
export function describeTrouble({ workflowId, what, mend }: WorkflowTrouble): string {
  return `${safeLine(`${workflowId} ${what}`)}\n  -> ${safeLine(mend)}`;
}

/** An update in words. Clock times are local. */
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
  const blocked = state === 'blocked' ? `${BLOCKED_TEXT[waitReason]}${pauseText(progress)}` : undefined;
  const parts = [
    blocked === undefined ? STATE_TEXT[state] : `blocked: ${blocked}`,
    position === undefined ? undefined : `position ${position}`,
    jobStatus === undefined ? undefined : `job ${safeLine(jobStatus)}`,
    failure ? safeLine(`${failure.type}: ${failure.message}`) : undefined,
    overdue === undefined ? undefined : `overdue: ${safeLine(overdue)}`,
    lastError === undefined ? undefined : `last error: ${safeLine(lastError.message)}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

/** By whom, until when and why, where that is known. */
function pauseText({ pause }: LiveProgress): string {
  if (!pause) return '';
  const by = pause.by === 'operator' ? ' by an operator' : ', for the service refuses more messages,';
  const until = pause.until === undefined ? 'until it is resumed' : `until ${clock(pause.until)}`;
  return `${by} ${until}${pause.note ? ` (${safeLine(pause.note)})` : ''}`;
}

function timingOf({ expectedSendAt, sentAt, polls, nextPollAt, state, asOf, waitsUntil }: LiveProgress): string {
  const parts = [
    sentAt === undefined && expectedSendAt !== undefined ? `send expected ${clock(expectedSendAt)}` : undefined,
    sentAt === undefined ? undefined : `sent ${clock(sentAt)}`,
    polls > 0 ? `${polls} ${polls === 1 ? 'poll' : 'polls'}` : undefined,
    isEndState(state) || nextPollAt === undefined ? undefined : `next poll ${clock(nextPollAt)}`,
    state === 'reconciling' && waitsUntil !== undefined ? `decides ${clock(waitsUntil)}` : undefined,
    asOf === undefined ? undefined : `as of ${clock(asOf)}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

/** What a person can do about a follow-up that does not go on by itself; empty where there is nothing. */
export function wayOut(progress: LiveProgress | undefined, workflowId: string): string {
  const needsSomebody = progress?.state === 'blocked' || progress?.state === 'reconciling' || progress?.failure;
  // Commands are code in Markdown.
  const step = needsSomebody ? nextStep(progress, workflowId)?.replaceAll('`', '') : undefined;
  return step === undefined ? '' : safeLine(step);
}

/** Local time of day with its offset, and with the date where it is another day. */
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
