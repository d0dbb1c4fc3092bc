import { type At, DELIVERED, type Description, markdownCode as code, markdownLink, type Row } from '../common/index.js';
import {
  type BlockReason,
  FailureType,
  type FollowUpProgress,
  isEndState,
  projectBudgetWorkflowId,
  type Refusal,
  type WaitReason,
} from '../contract/index.js';
import { describeRefusal, REFUSALS, REFUSED_ALONE } from '../protocol/index.js';

type ShownProgress = FollowUpProgress & {
  /** Time of `position`, `expectedSendAt` and the reason to wait, if they cannot be confirmed now. */
  asOf?: string;
};

/** Describes the message of a follow-up, its job, what it waits for, and what a person can do. */
export function describeFollowUp(progress: ShownProgress, workflowId: string, at: At): Description {
  const { projectId, state, failure, polls, lastError, pause, waitsUntil } = progress;
  const time = (iso: string | false | undefined) => iso && at(iso);
  const retryAt = pause?.by !== 'operator' && time(pause?.until);
  const isReconciling = state === 'reconciling';
  const expected = time(progress.expectedSendAt);
  const again = time(progress.asksAgainAt);
  const live: Row[] = [
    ['send expected', expected && `${expected}${again ? `, or it asks again ${again}` : ''}`],
    ['asks again', !expected && again],
    ['polls', polls > 0 && String(polls)],
    ['next poll', time(progress.nextPollAt)],
    ['tries again', time(progress.nextTryAt) ?? (retryAt && `${retryAt} or later`)],
    ['decides', time(isReconciling && waitsUntil)],
    ['as of', time(progress.asOf)],
  ];
  const isNews = lastError && !failure?.message.includes(lastError.message);
  const [headline, ...nextSteps] = describeState(progress, workflowId, at);
  return {
    headline,
    rows: [
      ['message', describeDelivery(progress, at)],
      ...live,
      ['why', failure && code(`${failure.type}: ${failure.message}`)],
      ...describeJob(progress, at),
      ['last error', isNews && `${code(lastError.message)}, ${at(lastError.at)}`],
      ['gives up', time(!isReconciling && waitsUntil)],
    ],
    live,
    nextSteps,
    newer:
      !isEndState(state) &&
      `\`follow-up status ${workflowId}\`, the pending activities, and the workflow \`${projectBudgetWorkflowId(projectId)}\``,
  };
}

function describeDelivery({ failure, sentAt, delivery, state, earlierSendUnknown }: FollowUpProgress, at: At): string {
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

/** The job, and the pull request of this message's turn. */
function describeJob({ job, jobSeenAt, jobStatus, prLink, state, failure }: FollowUpProgress, at: At): Row[] {
  if (!job) return [];
  const isOfThisTurn = jobStatus === job.status;
  const isInDoubt = state === 'reconciling' || failure?.delivered === 'unknown';
  const turn = isOfThisTurn ? '' : `, ${isInDoubt ? 'possibly ' : ''}before this message`;
  const age = jobSeenAt ? `, seen ${at(jobSeenAt)}` : '';
  return [
    ['job', `${code(job.status ?? 'no status')}${turn}${age}`],
    ['pull request', prLink === undefined ? isOfThisTurn && 'none' : markdownLink(prLink)],
  ];
}

type HeadlineAndSteps = [headline: string, ...nextSteps: string[]];

function describeState(progress: FollowUpProgress, workflowId: string, at: At): HeadlineAndSteps {
  const { state, failure, projectId, position, sentAt, waitReason } = progress;
  if (failure) return [`${state}: the message was ${DELIVERED[failure.delivered]}`, ...afterFailure(progress)];
  const place = position === undefined ? '' : `, position ${position}`;
  const job = (status: string | undefined) => (status === undefined ? '' : `, job ${code(status)}`);
  const pollNow = `\`follow-up poll-now ${workflowId}\``;
  switch (state) {
    case 'waiting-for-budget':
      return progress.nextTryAt === undefined
        ? [
            `waiting for a slot of project ${code(projectId)}${place}`,
            'no action is needed: it is sent in its turn',
            `to cancel it: \`follow-up cancel ${workflowId}\``,
          ]
        : [
            'waiting to try again: the last attempt did not send',
            'no action is needed: it tries again automatically',
            `to try at once: ${pollNow}`,
          ];
    case 'waiting-for-job':
      return [
        `waiting for the job: another turn is in progress${job(progress.job?.status)}`,
        'no action is needed: it is sent when the job is at rest',
        `to poll now: ${pollNow}`,
      ];
    case 'reconciling':
      return [
        'reconciling: finding out whether the message was delivered',
        'look at the job',
        `if the message is there: \`follow-up resolve ${workflowId} sent\``,
        `if it is not: \`follow-up resolve ${workflowId} notSent\`, which sends it again`,
      ];
    case 'polling': {
      const sent = sentAt === undefined ? 'sent' : `sent ${at(sentAt)}`;
      const headline = `${sent}, waiting for the agent${job(progress.jobStatus)}`;
      if (waitReason === undefined) return [headline, 'no action is needed', `to poll now: ${pollNow}`];
      const [, ...nextSteps] = describeBlock(progress, pollNow, at);
      return [`${headline}, but the job cannot be read`, ...nextSteps];
    }
    case 'blocked': {
      const [why, ...nextSteps] = describeBlock(progress, pollNow, at);
      return [`blocked: ${why}${place}`, ...nextSteps];
    }
    case 'job-failed':
      return ['job-failed: the message was delivered, and the agent job failed', ...afterFailure(progress)];
    default:
      return [state];
  }
}

function describeBlock(
  { projectId, waitReason = 'service', pause }: FollowUpProgress,
  pollNow: string,
  at: At,
): HeadlineAndSteps {
  const [why, ...nextSteps] = describeReason(waitReason, projectId);
  if (waitReason === 'paused') {
    const until = pause?.until === undefined ? 'until it is resumed' : `until ${at(pause.until)}`;
    const note = pause?.note === undefined ? '' : ` (${code(pause.note)})`;
    return [`${why} by an operator ${until}${note}`, ...nextSteps];
  }
  if (!isRefusal(waitReason)) return [why, ...nextSteps];
  const what = pause ? describeRefusal(waitReason, pause.statusCode) : why;
  const tryNow = `to try at once: ${pause ? resumeOf(projectId) : pollNow}`;
  if (pause?.by !== 'message') return [what, ...nextSteps, tryNow];
  return [`${what} to this message, ${REFUSED_ALONE.what}`, `${REFUSED_ALONE.fix}; it continues automatically`, tryNow];
}

const isRefusal = (reason: WaitReason | BlockReason): reason is Refusal => reason in REFUSALS;
const resumeOf = (projectId: string) => `\`follow-up budget resume ${projectId}\``;

/** Why a message cannot be sent now, and the way out. */
export function describeReason(reason: WaitReason | BlockReason, projectId: string): HeadlineAndSteps {
  switch (reason) {
    case 'slot':
    case 'job-busy':
      return ['not enough slots are free'];
    case 'paused':
      return ['the project is paused', `${resumeOf(projectId)}, if the pause is no longer wanted`];
    case 'queue-full':
      return ["the project's queue is full", 'no action is needed: it asks for a place again automatically'];
    case 'counting':
      return [
        "the project's budget is counting earlier sends",
        'no action is needed: it continues automatically within minutes',
      ];
    case 'budget-stopped':
      return ["the project's budget was stopped", `\`follow-up budget restore ${projectId}\``];
    case 'budget-silent': {
      const budget = `\`${projectBudgetWorkflowId(projectId)}\``;
      const fix = `\`follow-up doctor\` shows why ${budget} does not answer, and how to fix it`;
      return ["the project's budget does not reply", fix];
    }
    case 'service': {
      const fix = 'fix the agent job service or the connection to it; it continues automatically';
      return ['the job cannot be read, or is not found', fix];
    }
    default: {
      const what = reason === 'credentials' ? ', or the project has no API key' : '';
      return [`${REFUSALS[reason].what}${what}`, `${REFUSALS[reason].fix}; it continues automatically`];
    }
  }
}

function afterFailure({ projectId, jobId, state, failure }: FollowUpProgress): string[] {
  const again = `\`follow-up send ${projectId} ${jobId} --prompt …\``;
  if (state === 'delivery-unknown') return ['look at the job', `if the message is not there, send it again: ${again}`];
  if (state === 'timed-out')
    return ['look at the job, which may still be at work', `a new message waits for it: ${again}`];
  if (failure?.delivered === 'yes' || state === 'job-failed') return ['look at the job', `a new message: ${again}`];
  switch (failure?.type) {
    case FailureType.InvalidInput:
      return ['correct the input, and start it again with another key'];
    case FailureType.JobNotFound:
      return ['check the ids of the project and the job, and start it again with another key'];
    case FailureType.JobArchived:
      return ['nothing: an archived job takes no message'];
    case FailureType.Closed:
      return [`its key is already used; to send it with another key: ${again}`];
    default:
      return [`to send it anyway: ${again}`];
  }
}
