import {
  type At,
  DELIVERED,
  type Description,
  due,
  markdownCode as code,
  markdownLink,
  type Row,
} from '../common/index.js';
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

/** Describes the message of a follow-up, its job, what it waits for, and what a person can do at `nowMs`. */
export function describeFollowUp(progress: ShownProgress, workflowId: string, at: At, nowMs: number): Description {
  const { projectId, state, failure, polls, lastError, pause, waitsUntil } = progress;
  const time = (iso: string | false | undefined) => iso && due(iso, at, nowMs);
  const retryAt = pause?.by !== 'operator' && pause?.until;
  const isReconciling = state === 'reconciling';
  const live: Row[] = [
    ['send expected', time(progress.expectedSendAt)],
    ['polls', polls > 0 && String(polls)],
    ['next poll', time(progress.nextPollAt)],
    ['tries again', retryAt && due(retryAt, (iso) => `${at(iso)} or later`, nowMs)],
    ['asks again', time(progress.nextTryAt)],
    ['decides', time(isReconciling && waitsUntil)],
    ['as of', progress.asOf && at(progress.asOf)],
  ];
  const isNews = lastError && !failure?.message.includes(lastError.message);
  const [headline, ...nextSteps] = describeState(progress, workflowId, at, nowMs);
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

function describeState(progress: FollowUpProgress, workflowId: string, at: At, nowMs: number): HeadlineAndSteps {
  const { state, failure, position, sentAt, waitReason } = progress;
  if (failure) return [`${state}: the message was ${DELIVERED[failure.delivered]}`, ...afterFailure(progress)];
  const job = (status: string | undefined) => (status === undefined ? '' : `, job ${code(status)}`);
  const pollNow = `\`follow-up poll-now ${workflowId}\``;
  // After the send, only while the job cannot be read.
  const trouble = waitReason && describeBlock(progress, pollNow, at, nowMs);
  const but = trouble ? `, but ${trouble[0]}` : '';
  switch (state) {
    case 'waiting-for-budget':
      return describeSlotWait(progress, workflowId, nowMs);
    case 'waiting-for-job':
      return [
        `waiting for the job: another turn is in progress${job(progress.job?.status)}`,
        'no action is needed: it is sent when the job is at rest',
        `to poll now: ${pollNow}`,
      ];
    case 'reconciling':
      return [
        `reconciling: finding out whether the message was delivered${but}`,
        'look at the job',
        `if the message is there: \`follow-up resolve ${workflowId} sent\``,
        `if it is not: \`follow-up resolve ${workflowId} notSent\`, which sends it again`,
      ];
    case 'polling': {
      const sent = sentAt === undefined ? 'sent' : `sent ${at(sentAt)}`;
      const nextSteps = trouble ? trouble.slice(1) : ['no action is needed', `to poll now: ${pollNow}`];
      return [`${sent}, waiting for the agent${job(progress.jobStatus)}${but}`, ...nextSteps];
    }
    case 'blocked': {
      const [why, ...nextSteps] = describeBlock(progress, pollNow, at, nowMs);
      return [`blocked: ${why}${placeOf(position)}`, ...nextSteps];
    }
    case 'job-failed':
      return ['job-failed: the message was delivered, and the agent job failed', ...afterFailure(progress)];
    default:
      return [state];
  }
}

const placeOf = (position: number | undefined) => (position === undefined ? '' : `, position ${position}`);

function describeSlotWait(
  { projectId, position, expectedSendAt, nextTryAt }: FollowUpProgress,
  workflowId: string,
  nowMs: number,
): HeadlineAndSteps {
  const isInLine = position !== undefined || nextTryAt === undefined;
  const headline = isInLine
    ? `waiting for a slot of project ${code(projectId)}${placeOf(position)}`
    : 'waiting to try again: the last attempt did not send';
  if (!isInLine || (expectedSendAt !== undefined && Date.parse(expectedSendAt) <= nowMs)) {
    const askNow = `to ask at once: \`follow-up poll-now ${workflowId}\``;
    return [headline, 'no action is needed: it asks again automatically', askNow];
  }
  const unless = expectedSendAt === undefined ? ', unless its budget has the limit 0' : '';
  const cancel = `to cancel it: \`follow-up cancel ${workflowId}\``;
  return [headline, `no action is needed: it is sent in its turn${unless}`, cancel];
}

function describeBlock(
  { projectId, waitReason = 'service', pause }: FollowUpProgress,
  pollNow: string,
  at: At,
  nowMs: number,
): HeadlineAndSteps {
  const [why, ...nextSteps] = describeReason(waitReason, projectId);
  if (waitReason === 'paused') {
    const until = pause?.until === undefined ? 'until it is resumed' : `until ${due(pause.until, at, nowMs)}`;
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
    case 'not-served':
      return [
        `a worker that was asked does not serve project ${code(projectId)}`,
        `add ${code(projectId)} to \`FOLLOW_UP_PROJECTS\` of all workers of its task queue; it continues automatically`,
      ];
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
