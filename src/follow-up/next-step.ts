import { FailureType, projectBudgetWorkflowId, type FollowUpProgress } from '../contract/index.js';

/** What a person can do about a follow-up, as Markdown with commands as code; `undefined` where there is nothing. */
export function nextStep(progress: FollowUpProgress, workflowId: string): string | undefined {
  const { state, sentAt } = progress;
  switch (state) {
    case 'waiting-for-budget':
      return `nothing. Its position now: \`follow-up status ${workflowId}\`. To send it no more: \`follow-up cancel ${workflowId}\``;
    case 'waiting-for-job':
      return `nothing: it is sent when the job is at rest. To look now: \`follow-up poll-now ${workflowId}\``;
    case 'reconciling':
      return `look at the job. If the message is there: \`follow-up resolve ${workflowId} sent\`. If it is not: \`follow-up resolve ${workflowId} notSent\`, which sends it again`;
    case 'polling':
      return `nothing. The latest poll: \`follow-up status ${workflowId}\`. To look now: \`follow-up poll-now ${workflowId}\``;
    case 'blocked':
      return wayOutOfBlock(progress, sentAt !== undefined);
    case 'sending':
    case 'completed':
    case 'archived':
      return undefined;
    default:
      return afterFailure(progress);
  }
}

function wayOutOfBlock({ projectId, waitReason, pause }: FollowUpProgress, isSent: boolean): string {
  const resume = `\`follow-up budget resume ${projectId}\``;
  switch (waitReason) {
    case 'paused':
      return pause?.by === 'service'
        ? `nothing: it goes on by itself. To try at once: ${resume}`
        : `${resume}, where the pause is no longer wanted`;
    case 'credentials':
      return isSent
        ? 'give the workers a valid key for the project; it goes on by itself'
        : `give the workers a valid key for the project; it goes on within 15 minutes, or at once with ${resume}`;
    case 'queue-full':
      return 'nothing: it asks for a place again by itself';
    case 'gate-stopped':
      return `\`follow-up budget restore ${projectId}\``;
    case 'budget-silent':
      return `\`follow-up doctor\` says what keeps \`${projectBudgetWorkflowId(projectId)}\` from answering, and the command that mends it`;
    default:
      return 'mend the agent job service, or the way to it; it goes on by itself';
  }
}

function afterFailure({ projectId, jobId, state, failure }: FollowUpProgress): string {
  const again = `\`follow-up send ${projectId} ${jobId} --prompt …\``;
  if (state === 'delivery-unknown') return `look at the job. If the message is not there, send it again: ${again}`;
  if (state === 'timed-out') return `look at the job, which may still be at work. A new message waits for it: ${again}`;
  if (failure?.delivered === 'yes' || state === 'job-failed') return `look at the job. A new message: ${again}`;
  switch (failure?.type) {
    case FailureType.InvalidInput:
      return 'correct the input, and start it again; its key is free';
    case FailureType.JobNotFound:
      return 'check the ids of the project and the job, and start it again with another key';
    case FailureType.JobArchived:
      return 'nothing: an archived job takes no message';
    case FailureType.Closed:
      return `its key is used up. With a new one: ${again}`;
    default:
      return `to send it after all: ${again}`;
  }
}
