import type { FollowUpResult } from '../contract/index.js';
import { ExitCode } from './exit-codes.js';
import { safeLine } from './safe-text.js';

/** A result for people. */
export function describeResult(workflowId: string, result: FollowUpResult): string {
  const { status, prLink, prLinkChanged, delivery, observedActive, polls, sentAt, finishedAt } = result;
  return [
    `status        ${status}`,
    `pull request  ${prLink === null ? 'none' : safeLine(prLink)}${prLinkChanged ? ' (new)' : ''}`,
    `delivery      ${delivery}${observedActive ? '' : ', the job was not seen at work on it'}`,
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
