import { type At, markdownAsOf, markdownCode as code, markdownInstant } from '../common/index.js';
import {
  type BlockReason,
  type Delivered,
  FailureType,
  type FollowUpProgress,
  projectBudgetWorkflowId,
  type Refusal,
  type WaitReason,
} from '../contract/index.js';
import { describeRefusal, REFUSALS, REFUSED_ALONE } from '../protocol/index.js';

/**
 * Describes a follow-up in Markdown. Uses lists because the Temporal UI renders tables without spacing.
 *
 * @param at formats an instant. Default: in UTC, for the Temporal UI
 */
export function describeProgress(
  progress: FollowUpProgress,
  workflowId: string,
  nowMs: number,
  at: At = (iso) => markdownInstant(iso, nowMs),
): string {
  const { projectId, state, job, lastError, failure, position, expectedSendAt, waitsUntil, nextTryAt, pause } =
    progress;
  const lines = [`**${headlineOf(progress, at)}**`, ''];
  const row = (name: string, value: string) => lines.push(`- ${name}: ${value}`);
  row('message', describeDelivery(progress, at));
  if (position !== undefined) row('position', String(position));
  if (expectedSendAt) row('send expected', at(expectedSendAt));
  if (failure) row('why', code(`${failure.type}: ${failure.message}`));
  if (job) {
    const age = progress.jobSeenAt ? `, seen ${at(progress.jobSeenAt)}` : '';
    const isOfThisTurn = progress.jobStatus === job.status;
    const isInDoubt = state === 'reconciling' || failure?.delivered === 'unknown';
    const elsewhere = isInDoubt ? 'job, possibly before this message' : 'job before this message';
    row(isOfThisTurn ? 'job' : elsewhere, `${code(job.status ?? 'no status')}${age}`);
    if (progress.prLink !== undefined) row('pull request', link(progress.prLink));
    else if (isOfThisTurn) row('pull request', 'none');
  }
  if (lastError && !failure?.message.includes(lastError.message))
    row('last error', `${code(lastError.message)}, ${at(lastError.at)}`);
  if (nextTryAt !== undefined) row('tries again', at(nextTryAt));
  else if (state === 'waiting-for-job')
    row('polls', 'the pending activity `watchJob`, if there is one, shows the last poll and the next one');
  else if (state === 'polling' || state === 'reconciling') {
    row('polls', 'the pending activity `watchJob` shows the last poll and the next one in its heartbeat');
  } else if (pause && pause.by !== 'operator') {
    const earliest = pause.until === undefined ? '' : `${at(pause.until)} or later: `;
    row('tries again', `${earliest}the workflow \`${projectBudgetWorkflowId(projectId)}\` shows when`);
  } else if (state === 'blocked') row('tries again', 'the pending activity `askForSlot`, if there is one, shows when');
  if (waitsUntil) row(state === 'reconciling' ? 'decides' : 'gives up', at(waitsUntil));
  const step = nextStep(progress, workflowId);
  if (step !== undefined) row('to do', step);
  lines.push('', markdownAsOf(nowMs));
  return lines.join('\n');
}

/** Text for `delivered`: within a sentence, and (below) alone. */
const WAS: Readonly<Record<Delivered, string>> = {
  yes: 'delivered',
  no: 'not delivered',
  unknown: 'possibly delivered',
};
const DELIVERED = { ...WAS, unknown: '**unknown** whether it was delivered' };

function describeDelivery({ failure, sentAt, delivery, state, earlierSendUnknown }: FollowUpProgress, at: At) {
  if (failure) return DELIVERED[failure.delivered];
  if (sentAt !== undefined) {
    const how = delivery === 'assumed' ? 'assumed delivered' : 'delivered';
    const proof = delivery === 'inferred' ? ' (the job shows it)' : '';
    return `${how} ${at(sentAt)}${proof}`;
  }
  if (state === 'reconciling') return DELIVERED.unknown;
  if (earlierSendUnknown) return 'sent before, but its delivery is unknown; it will be sent again';
  return state === 'sending' ? 'being sent' : 'not sent yet';
}

/** The state of a follow-up as one line of Markdown. */
export function headlineOf(progress: FollowUpProgress, at: At): string {
  const { state, failure, projectId } = progress;
  if (failure) return `${state}: the message was ${WAS[failure.delivered]}`;
  switch (state) {
    case 'waiting-for-budget':
      if (progress.nextTryAt !== undefined) return 'waiting to try again: the last attempt did not send';
      return `waiting for a slot of project ${projectId}`;
    case 'waiting-for-job':
      return 'waiting for the job: another turn is in progress';
    case 'sending':
      return 'sending';
    case 'reconciling':
      return 'reconciling: finding out whether the message was delivered';
    case 'polling':
      return `sent, waiting for the agent${progress.waitReason ? ', but the job cannot be read' : ''}`;
    case 'blocked':
      return `blocked: ${describeBlock(progress, at)}`;
    case 'job-failed':
      return 'job-failed: the message was delivered, and the agent job failed';
    default:
      return state;
  }
}

function describeBlock({ waitReason = 'service', pause }: FollowUpProgress, at: At): string {
  if (isRefusal(waitReason) && pause) {
    const what = describeRefusal(waitReason, pause.statusCode);
    return pause.by === 'message' ? `${what} to this message, ${REFUSED_ALONE.what}` : what;
  }
  const why = BLOCKED[waitReason] ?? waitReason;
  if (waitReason !== 'paused') return why;
  const until = pause?.until === undefined ? 'until it is resumed' : `until ${at(pause.until)}`;
  const note = pause?.note === undefined ? '' : ` (${code(pause.note)})`;
  return `${why} by an operator ${until}${note}`;
}

const isRefusal = (reason: WaitReason | BlockReason): reason is Refusal => reason in REFUSALS;

/** Texts for the reasons that block a follow-up. The other reasons to wait don't. */
export const BLOCKED: Readonly<Partial<Record<WaitReason | BlockReason, string>>> = {
  paused: 'the project is paused',
  limited: REFUSALS.limited.what,
  credentials: `${REFUSALS.credentials.what}, or the project has no API key`,
  payment: REFUSALS.payment.what,
  outage: REFUSALS.outage.what,
  'queue-full': "the project's queue is full",
  counting: "the project's budget is counting earlier sends",
  'budget-stopped': "the project's budget was stopped",
  'budget-silent': "the project's budget does not reply",
  service: 'the job cannot be read, or is not found',
};

/** Only a plain web address becomes a link. Other text from the service stays text. */
function link(url: string): string {
  return /^https?:\/\/[\w.~:/?#@!$&'*+,;=%-]+$/.test(url) ? `<${url}>` : code(url);
}

/** The next step for a person, in Markdown; `undefined` if there is none. */
export function nextStep(progress: FollowUpProgress, workflowId: string): string | undefined {
  const { state } = progress;
  switch (state) {
    case 'waiting-for-budget':
      if (progress.nextTryAt !== undefined)
        return `nothing: it tries again automatically. To try at once: \`follow-up poll-now ${workflowId}\``;
      return `nothing. Its position now: \`follow-up status ${workflowId}\`. To cancel it: \`follow-up cancel ${workflowId}\``;
    case 'waiting-for-job':
      return `nothing: it is sent when the job is at rest. To poll now: \`follow-up poll-now ${workflowId}\``;
    case 'reconciling':
      return `look at the job. If the message is there: \`follow-up resolve ${workflowId} sent\`. If it is not: \`follow-up resolve ${workflowId} notSent\`, which sends it again`;
    case 'polling':
      if (progress.waitReason) return wayOutOfBlock(progress, workflowId);
      return `nothing. The latest poll: \`follow-up status ${workflowId}\`. To poll now: \`follow-up poll-now ${workflowId}\``;
    case 'blocked':
      return wayOutOfBlock(progress, workflowId);
    case 'sending':
    case 'completed':
    case 'archived':
      return undefined;
    default:
      return afterFailure(progress);
  }
}

function wayOutOfBlock({ projectId, waitReason, pause }: FollowUpProgress, workflowId: string): string {
  const resume = `\`follow-up budget resume ${projectId}\``;
  const tryNow = pause ? resume : `\`follow-up poll-now ${workflowId}\``;
  switch (waitReason) {
    case 'paused':
      return `${resume}, if the pause is no longer wanted`;
    case 'limited':
    case 'credentials':
    case 'payment':
    case 'outage':
      return `${pause?.by === 'message' ? REFUSED_ALONE.fix : REFUSALS[waitReason].fix}; it continues automatically. To try at once: ${tryNow}`;
    case 'queue-full':
      return 'nothing: it asks for a place again automatically';
    case 'counting':
      return 'nothing: it continues automatically within minutes';
    case 'budget-stopped':
      return `\`follow-up budget restore ${projectId}\``;
    case 'budget-silent':
      return `\`follow-up doctor\` shows why \`${projectBudgetWorkflowId(projectId)}\` does not answer, and how to fix it`;
    default:
      return 'fix the agent job service or the connection to it; it continues automatically';
  }
}

function afterFailure({ projectId, jobId, state, failure }: FollowUpProgress): string {
  const again = `\`follow-up send ${projectId} ${jobId} --prompt …\``;
  if (state === 'delivery-unknown') return `look at the job. If the message is not there, send it again: ${again}`;
  if (state === 'timed-out') return `look at the job, which may still be at work. A new message waits for it: ${again}`;
  if (failure?.delivered === 'yes' || state === 'job-failed') return `look at the job. A new message: ${again}`;
  switch (failure?.type) {
    case FailureType.InvalidInput:
      return 'correct the input, and start it again with another key';
    case FailureType.JobNotFound:
      return 'check the ids of the project and the job, and start it again with another key';
    case FailureType.JobArchived:
      return 'nothing: an archived job takes no message';
    case FailureType.Closed:
      return `its key is already used. To send it with another key: ${again}`;
    default:
      return `to send it anyway: ${again}`;
  }
}
