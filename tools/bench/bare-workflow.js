import { proxyActivities } from '@temporalio/workflow';

const { sendMessage } = proxyActivities({ startToCloseTimeout: '30s', retry: { maximumAttempts: 1 } });
const { watchJob } = proxyActivities({ startToCloseTimeout: '1d', heartbeatTimeout: '75s' });

/** The cheapest follow-up: an activity that sends, then one that sleeps in its process between reads. No budget. */
export async function bareFollowUp(input) {
  await sendMessage(input);
  return watchJob(input);
}
