import { ActivityCancellationType, proxyActivities, workflowInfo } from '@temporalio/workflow';
import type { FollowUpInput } from 'agent-follow-up/contract';
import type { createActivities } from './activities.ts';

const { sendFollowUp } = proxyActivities<ReturnType<typeof createActivities>>({
  // Longer than both timeouts of the follow-up together.
  startToCloseTimeout: '9 days',
  heartbeatTimeout: '10s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
});

/** Returns the pull request. */
export async function callerWorkflow(input: FollowUpInput) {
  const { status, prLink } = await sendFollowUp({ ...input, key: workflowInfo().workflowId });
  return { status, prLink };
}
