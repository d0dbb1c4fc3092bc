import type { Delivered, FollowUpProgress } from '../contract/index.js';
import { markdownAsOf, markdownCode as code, markdownInstant } from '../contract/markdown.js';
import { nextStep } from './next-step.js';

/** What is shown of a follow-up in the Temporal UI, as Markdown. Lists: the UI sets the cells of a table without a gap. */
export function describeProgress(progress: FollowUpProgress, workflowId: string, nowMs: number): string {
  const { state, job, lastError, failure, position, expectedSendAt, nextTryAt, nextPollAt, waitsUntil } = progress;
  const at = (iso: string) => markdownInstant(iso, nowMs);
  const lines = [`**${describeState(progress, at)}**`, ''];
  const row = (name: string, value: string) => lines.push(`- ${name}: ${value}`);
  row('message', describeDelivery(progress, at));
  if (position !== undefined) row('position', `${position} when it asked last`);
  if (expectedSendAt) row('send expected', at(expectedSendAt));
  if (failure) row('why', code(`${failure.type}: ${failure.message}`));
  if (job) {
    const age = progress.jobSeenAt ? `, seen ${at(progress.jobSeenAt)}` : '';
    const isOfThisTurn = progress.jobStatus === job.status;
    const isInDoubt = state === 'reconciling' || failure?.delivered === 'unknown';
    const elsewhere = isInDoubt ? 'job, perhaps before this message' : 'job before this message';
    row(isOfThisTurn ? 'job' : elsewhere, `${code(job.status ?? 'no status')}${age}`);
    if (progress.prLink !== undefined) row('pull request', link(progress.prLink));
    else if (isOfThisTurn) row('pull request', 'none');
  }
  if (lastError && !failure?.message.includes(lastError.message))
    row('last error', `${code(lastError.message)}, ${at(lastError.at)}`);
  // A watch shows nothing of its own looks as long as they show nothing new.
  if (nextPollAt && state === 'polling') row('polls', `go on from ${at(nextPollAt)}; this changes with what they show`);
  else if (nextPollAt) row('next poll', at(nextPollAt));
  if (nextTryAt) row('tries again', `${at(nextTryAt)} at the latest`);
  if (waitsUntil) row(state === 'reconciling' ? 'decides' : 'gives up', at(waitsUntil));
  const step = nextStep(progress, workflowId);
  if (step !== undefined) row('to do', step);
  lines.push('', markdownAsOf(nowMs));
  return lines.join('\n');
}

/** Name of a timer that waits for the budget, such as `budget: position 7, about 12:40:00 UTC`. */
export function describeBudgetWait(reason: string, position: number, etaMs: number | null, nowMs: number): string {
  if (reason !== 'slot') return `budget: ${reason}`;
  const eta = etaMs === null ? '' : `, about ${markdownInstant(new Date(nowMs + etaMs).toISOString(), nowMs)}`;
  return position > 0 ? `budget: position ${position}${eta}` : `budget: waiting${eta}`;
}

/** What the message came to, by `delivered` of a failure. */
const DELIVERED: Readonly<Record<Delivered, string>> = {
  yes: 'delivered',
  no: 'not delivered',
  unknown: '**not known** whether it was delivered',
};

type At = (iso: string) => string;

function describeDelivery({ failure, sentAt, delivery, state, earlierSendUnknown, polls }: FollowUpProgress, at: At) {
  if (failure) return DELIVERED[failure.delivered];
  if (sentAt !== undefined) {
    const how = delivery === 'assumed' ? 'taken for delivered' : 'delivered';
    const proof = delivery === 'inferred' ? ' (the job shows it)' : '';
    return `${how} ${at(sentAt)}${proof}, ${polls} ${polls === 1 ? 'poll' : 'polls'} since`;
  }
  if (state === 'reconciling') return DELIVERED.unknown;
  if (earlierSendUnknown) return 'sent before, without knowing whether it arrived; to be sent again';
  return state === 'sending' ? 'on its way' : 'not sent yet';
}

function describeState(progress: FollowUpProgress, at: At): string {
  const { state, failure, projectId } = progress;
  if (failure) return `${state}: the message was ${WORD_OF_DELIVERY[failure.delivered]}`;
  switch (state) {
    case 'waiting-for-budget':
      return `waiting for a slot of project ${projectId}`;
    case 'waiting-for-job':
      return 'waiting for the job: another turn is under way';
    case 'sending':
      return 'sending';
    case 'reconciling':
      return 'reconciling: finding out whether the message was delivered';
    case 'polling':
      return 'sent, waiting for the agent';
    case 'blocked':
      return `blocked: ${describeBlock(progress, at)}`;
    case 'job-failed':
      return 'job-failed: the message was delivered, and the agent job failed';
    default:
      return state;
  }
}

const WORD_OF_DELIVERY: Readonly<Record<Delivered, string>> = {
  yes: 'delivered',
  no: 'not delivered',
  unknown: 'perhaps delivered',
};

function describeBlock({ waitReason, pause, projectId }: FollowUpProgress, at: At): string {
  switch (waitReason) {
    case 'paused': {
      const until = pause?.until === undefined ? 'until it is resumed' : `until ${at(pause.until)}`;
      if (pause?.by === 'service') return `the service refuses more messages of project ${projectId}, ${until}`;
      const note = pause?.note === undefined ? '' : ` (${code(pause.note)})`;
      return `project ${projectId} is paused ${pause ? `by an operator ${until}${note}` : 'by an operator or the service'}`;
    }
    case 'credentials':
      return `the service refuses the API key of project ${projectId}, or there is none`;
    case 'queue-full':
      return `the queue of project ${projectId} is full`;
    case 'gate-stopped':
      return `the budget of project ${projectId} was stopped`;
    case 'budget-silent':
      return `the budget of project ${projectId} does not answer`;
    default:
      return 'the job cannot be read';
  }
}

/** Only a plain web address becomes a link; anything else a service may put there is shown as text. */
function link(url: string): string {
  return /^https?:\/\/[\w.~:/?#@!$&'*+,;=%-]+$/.test(url) ? `<${url}>` : code(url);
}
