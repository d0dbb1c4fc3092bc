import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { FollowUpClient } from '../../../dist/client/index.js';
import { startDevServer } from '../../../dist/dev-server/index.js';
import { startSimulator } from '../../../dist/simulator/index.js';
import { ensureSearchAttributes } from '../../../dist/temporal/search-attributes.js';

const COMMAND = fileURLToPath(new URL('../../../bin/follow-up.js', import.meta.url));
const TASK_QUEUE = 'budget-bench';
/** How many follow-ups are started at a time. */
const START_CONCURRENCY = 25;

/** The default polls, and a short settle time: the benchmark measures the budget. */
const INPUT = { settleTime: '5s' };

/**
 * Starts a Temporal development server with its defaults, in memory, a simulated service and worker processes.
 *
 * @param {object} options
 * @param {object} options.env the environment
 * @param {object} options.settings environment of the workers, besides the addresses
 * @param {object} options.simulator options of the simulated service
 * @param {number} [options.workers] number of worker processes, 2
 */
export async function startBudgetStack({ env, settings, simulator: simulatorOptions, workers = 2 }) {
  const closers = [];
  const stop = async () => {
    for (const close of closers.splice(0).reverse()) await close();
  };
  try {
    const server = await startDevServer({ env });
    closers.push(() => server.stop());
    const simulator = await startSimulator({ turn: { minMs: 300, maxMs: 600 }, ...simulatorOptions });
    closers.push(() => simulator.close());
    const workerEnv = {
      ...env,
      TEMPORAL_ADDRESS: server.address,
      AGENT_JOBS_BASE_URL: simulator.baseUrl,
      AGENT_JOBS_API_KEY: simulator.apiKey,
      FOLLOW_UP_TASK_QUEUE: TASK_QUEUE,
      FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
      FOLLOW_UP_LOG_LEVEL: 'error',
      FOLLOW_UP_LOG_FORMAT: 'json',
      ...settings,
    };
    for (let index = 0; index < workers; index++) {
      const worker = startWorkerProcess(workerEnv);
      closers.push(worker.stop);
    }
    const connection = await Connection.connect({ address: server.address });
    closers.push(() => connection.close());
    const client = new Client({ connection });
    const followUps = new FollowUpClient({ client, taskQueue: TASK_QUEUE });
    await ensureSearchAttributes(connection, 'default');
    const [warmUp] = await startAll(simulator, followUps, [{ projectId: 'warm-up', jobId: 'job' }]);
    await warmUp.result();
    return { simulator, client, followUps, start: (inputs) => startAll(simulator, followUps, inputs), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function startWorkerProcess(env) {
  const child = spawn(process.execPath, [COMMAND, 'worker'], { env, stdio: ['ignore', 'inherit', 'inherit'] });
  const exited = once(child, 'exit');
  return {
    stop: async () => {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

/** Makes the jobs and starts a follow-up of each, in the given order, several at a time. */
async function startAll(simulator, followUps, inputs) {
  for (const { projectId, jobId } of inputs) simulator.addJob({ projectId, jobId });
  const handles = [];
  let next = 0;
  const run = async () => {
    for (let index = next++; index < inputs.length; index = next++) {
      handles[index] = await followUps.start({ prompt: `message ${index}`, ...INPUT, ...inputs[index] });
    }
  };
  await Promise.all(Array.from({ length: START_CONCURRENCY }, run));
  return handles;
}
