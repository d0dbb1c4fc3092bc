import type { FollowUpUpdate, WorkflowTrouble } from '../client/index.js';
import type { FollowUpProgress, FollowUpResult, FollowUpState } from '../contract/index.js';
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
    `sent          ${safeLine(sentAt)}`,
    `finished      ${safeLine(finishedAt)} after ${polls} ${polls === 1 ? 'poll' : 'polls'}`,
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
  done: 'done',
};

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
export function describeUpdate({ summary, progress, progressUnavailable }: FollowUpUpdate): ProgressText {
  if (progress) return { headline: headlineOf(progress), timing: timingOf(progress) };
  const known = [summary.state && STATE_TEXT[summary.state], summary.jobStatus && `job ${safeLine(summary.jobStatus)}`];
  const last = known.filter(Boolean).join(', ');
  return {
    headline: `progress unavailable: ${safeLine(progressUnavailable ?? 'no answer')}${last ? `; last known: ${last}` : ''}`,
    timing: '',
  };
}

function headlineOf({ state, waitReason, position, sentAt, job, lastError }: FollowUpProgress): string {
  const blocked = state === 'blocked' && waitReason !== undefined ? BLOCKED_TEXT[waitReason] : undefined;
  const parts = [
    blocked === undefined ? STATE_TEXT[state] : `blocked: ${blocked}`,
    position === undefined ? undefined : `position ${position}`,
    // Before the send its status is that of another turn.
    sentAt === undefined || job?.status === undefined ? undefined : `job ${safeLine(job.status)}`,
    lastError === undefined ? undefined : `last error: ${safeLine(lastError.message)}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

function timingOf({ expectedSendAt, sentAt, polls, nextPollAt, state }: FollowUpProgress): string {
  const parts = [
    sentAt === undefined && expectedSendAt !== undefined ? `send expected ${clock(expectedSendAt)}` : undefined,
    sentAt === undefined ? undefined : `sent ${clock(sentAt)}`,
    polls > 0 ? `${polls} ${polls === 1 ? 'poll' : 'polls'}` : undefined,
    state === 'done' || nextPollAt === undefined ? undefined : `next poll ${clock(nextPollAt)}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

/** Time of day, with the date where it is another day. */
export function clock(instant: string, now = new Date()): string {
  const date = new Date(instant);
  if (Number.isNaN(date.getTime())) return safeLine(instant);
  const time = date.toTimeString().slice(0, 8);
  return date.toDateString() === now.toDateString() ? time : `${date.toDateString().slice(4)} ${time}`;
}
