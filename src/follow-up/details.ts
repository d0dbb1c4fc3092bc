import { formatDuration, type Delivered, type FollowUpProgress } from '../contract/index.js';
import { markdownCode as code } from '../contract/markdown.js';

/** What to do where nobody answers for the project's budget. */
const WAY_OUT: Readonly<Record<string, string>> = {
  'gate-stopped': ", the project's budget has ended: `follow-up budget restore`",
  'budget-silent': ", the project's budget runs and does not answer: `follow-up doctor` says why",
};

/** What is shown of a follow-up in the Temporal UI, as Markdown. */
export function describeProgress(progress: FollowUpProgress, nowMs: number): string {
  const { job, lastError, failure } = progress;
  const lines = [`**${describeState(progress)}**`, ''];
  const row = (name: string, value: string) => lines.push(`- ${name}: ${value}`);
  if (progress.expectedSendAt) row('send expected', clock(progress.expectedSendAt));
  if (progress.sentAt) row('sent', `${clock(progress.sentAt)}, ${progress.polls} polls since`);
  if (progress.nextPollAt) row('next poll', clock(progress.nextPollAt));
  if (failure) row('why', code(`${failure.type}: ${failure.message}`));
  if (job) {
    const age = progress.jobSeenAt ? `, seen ${clock(progress.jobSeenAt)}` : '';
    const isOfThisTurn = progress.jobStatus === job.status;
    row(isOfThisTurn ? 'job' : 'job, in another turn', `${code(job.status ?? 'no status')}${age}`);
    if (progress.prLink !== undefined) row('pull request', link(progress.prLink));
    else if (isOfThisTurn) row('pull request', 'none');
  }
  if (lastError) row('last error', `${clock(lastError.at)} ${code(lastError.message)}`);
  lines.push('', `_As of ${clock(new Date(nowMs).toISOString())} UTC._`);
  return lines.join('\n');
}

/** One line for a wait for the budget, such as `budget: position 7, about 12:40 (in 35 min)`. */
export function describeBudgetWait(reason: string, position: number, etaMs: number | null, nowMs: number): string {
  if (reason !== 'slot') return `budget: ${reason}`;
  const eta =
    etaMs === null ? '' : `, about ${clock(new Date(nowMs + etaMs).toISOString())} (in ${formatDuration(etaMs)})`;
  return position > 0 ? `budget: position ${position}${eta}` : `budget: waiting${eta}`;
}

/** What the message came to, by `delivered` of a failure. */
const DELIVERED: Readonly<Record<Delivered, string>> = {
  yes: 'the message was delivered',
  no: 'the message was not delivered',
  unknown: 'whether the message was delivered is not known',
};

function describeState({ state, waitReason, position, failure }: FollowUpProgress): string {
  if (failure) return `${state}: ${DELIVERED[failure.delivered]}`;
  switch (state) {
    case 'waiting-for-budget':
      return position === undefined ? 'waiting for budget' : `waiting for budget, position ${position}`;
    case 'waiting-for-job':
      return 'waiting for the job: another turn is under way';
    case 'sending':
      return 'sending';
    case 'reconciling':
      return 'reconciling: it is not known whether the message was delivered';
    case 'polling':
      return 'sent, waiting for the agent';
    case 'blocked':
      return `blocked: ${waitReason ?? 'service'}${WAY_OUT[waitReason ?? ''] ?? ''}`;
    case 'job-failed':
      return 'job-failed: the message was delivered, and the agent job failed';
    default:
      return state;
  }
}

/** `12:40:05` of an ISO 8601 instant. */
function clock(iso: string): string {
  return iso.slice(11, 19);
}

/** Only a plain web address becomes a link; anything else a service may put there is shown as text. */
function link(url: string): string {
  return /^https?:\/\/[\w.~:/?#@!$&'*+,;=%-]+$/.test(url) ? `<${url}>` : code(url);
}
