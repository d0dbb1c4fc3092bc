import { Context } from '@temporalio/activity';
import { createNaiveActivities } from './naive-activities.js';

/**
 * Activities of the bare workflow. They send and read as those of the naive one do.
 *
 * @param {string} baseUrl of the agent job service
 */
export function createBareActivities(baseUrl) {
  const { sendMessage, getJob } = createNaiveActivities(baseUrl);
  return {
    sendMessage,
    async watchJob({ projectId, jobId, intervalMs }) {
      const context = Context.current();
      for (let polls = 1; ; polls++) {
        await context.sleep(intervalMs);
        const job = await getJob({ projectId, jobId });
        context.heartbeat({ polls });
        if (['completed', 'archived', 'failed'].includes(job.status)) return job;
      }
    },
  };
}
