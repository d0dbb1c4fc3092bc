/** The worker of the bare workflow, whose bundle its argument names. Its settings are those of the product's worker. */
import { Context } from '@temporalio/activity';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { request } from 'undici';
import { workerSettings } from '../../dist/config/settings.js';
import { processEnvironment } from '../../dist/config/settings-reader.js';

const env = processEnvironment();

async function call({ projectId, jobId }, path, options) {
  const { statusCode, body } = await request(`${env.AGENT_JOBS_BASE_URL}/v2/agent/${projectId}/job/${jobId}${path}`, {
    ...options,
    headers: { authorization: `Bearer ${env.AGENT_JOBS_API_KEY}`, 'content-type': 'application/json' },
  });
  if (statusCode !== 200) throw new Error(`the service answered ${statusCode}`);
  return body.json();
}

const activities = {
  sendMessage: ({ prompt, ...job }) => call(job, '/message', { method: 'POST', body: JSON.stringify({ prompt }) }),
  async watchJob({ intervalMs, ...input }) {
    for (let polls = 1; ; polls++) {
      await Context.current().sleep(intervalMs);
      const job = await call(input, '', { method: 'GET' });
      Context.current().heartbeat({ polls });
      if (job.status !== 'active') return job;
    }
  },
};

// SIGUSR2 is for collect-garbage.js.
Runtime.install({ logger: new DefaultLogger('ERROR'), shutdownSignals: ['SIGTERM'] });
const { capacity } = workerSettings;
const connection = await NativeConnection.connect({ address: env.TEMPORAL_ADDRESS });
const worker = await Worker.create({
  connection,
  taskQueue: env.FOLLOW_UP_TASK_QUEUE,
  workflowBundle: { codePath: process.argv[2] },
  activities,
  // One that sleeps occupies one.
  maxConcurrentActivityTaskExecutions: capacity.watches.fallback,
  maxCachedWorkflows: capacity.cachedWorkflows.fallback,
  shutdownGraceTime: 0,
});
await worker.run();
