import { proxyActivities, sleep } from '@temporalio/workflow';

export { collectGarbage } from './collect-garbage-workflow.js';

const { sendMessage, getJob } = proxyActivities({ startToCloseTimeout: '30s' });

/** The simplest follow-up: an activity that sends, then a loop of a timer and an activity that reads. */
export async function naiveFollowUp({ projectId, jobId, prompt, intervalMs }) {
  await sendMessage({ projectId, jobId, prompt });
  for (;;) {
    await sleep(intervalMs);
    const job = await getJob({ projectId, jobId });
    if (['completed', 'archived', 'failed'].includes(job.status)) return job;
  }
}
