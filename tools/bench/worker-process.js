/**
 * The worker of one side, in a process of its own. Its argument is JSON: `{ side, address, baseUrl, bundlePath }`. Over
 * IPC it says `ready`, collects garbage and answers with its memory on `measure`, and ends on `stop`.
 */
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { loadConfig } from '../../dist/config/index.js';
import { workerSettings } from '../../dist/config/settings.js';
import { createLogger } from '../../dist/logging.js';
import { startWorker } from '../../dist/worker.js';
import { createBareActivities } from './bare-activities.js';
import { createNaiveActivities } from './naive-activities.js';
import { API_KEY, BUDGET_LIMIT, TASK_QUEUE } from './settings.js';

/** The product's worker with its defaults, except for addresses, a budget that does not limit, and a longer timeout. */
async function startProduct({ address, baseUrl, bundlePath }) {
  const config = loadConfig({
    TEMPORAL_ADDRESS: address,
    AGENT_JOBS_BASE_URL: baseUrl,
    AGENT_JOBS_API_KEY: API_KEY,
    // Longer than the slowest read of a benchmark.
    AGENT_JOBS_GET_TIMEOUT: '7s',
    FOLLOW_UP_TASK_QUEUE: TASK_QUEUE,
    FOLLOW_UP_BUDGET_LIMIT: String(BUDGET_LIMIT),
    FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
    FOLLOW_UP_LOG_LEVEL: 'error',
  });
  const worker = await startWorker({ config, logger: createLogger(config.logging), bundlePath });
  await worker.ready;
  return { ended: worker.run(), stop: () => worker.shutdown() };
}

/** A worker as Temporal's samples start it. Its cache is as large as the product's, and its logs are as quiet. */
async function startPlain({ side, address, baseUrl, bundlePath }) {
  Runtime.install({
    logger: new DefaultLogger('ERROR'),
    shutdownSignals: [],
    telemetryOptions: { logging: { filter: { core: 'ERROR', other: 'ERROR' } } },
  });
  const connection = await NativeConnection.connect({ address });
  const worker = await Worker.create({
    connection,
    taskQueue: TASK_QUEUE,
    workflowBundle: { codePath: bundlePath },
    activities: side === 'bare' ? createBareActivities(baseUrl) : createNaiveActivities(baseUrl),
    // A bare follow-up that sleeps occupies one.
    maxConcurrentActivityTaskExecutions: side === 'bare' ? workerSettings.capacity.watches.fallback : 100,
    maxCachedWorkflows: workerSettings.capacity.cachedWorkflows.fallback,
  });
  const ended = worker.run();
  return {
    ended,
    stop: async () => {
      worker.shutdown();
      await ended;
      await connection.close();
    },
  };
}

const options = JSON.parse(process.argv[2]);
const worker = await (options.side === 'product' ? startProduct(options) : startPlain(options));
process.on('disconnect', () => process.exit(1));
process.on('message', (message) => {
  if (message === 'measure') {
    globalThis.gc();
    process.send({ residentBytes: process.memoryUsage().rss });
  } else if (message === 'stop') {
    void worker.stop().then(() => process.exit(0));
  }
});
process.send('ready');
await worker.ended;
