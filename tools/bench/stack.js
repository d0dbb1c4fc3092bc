import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { FollowUpClient } from '../../dist/client/index.js';
import { processEnvironment } from '../../dist/config/settings-reader.js';
import { startDevServer } from '../../dist/dev-server/index.js';
import { startSimulator } from '../../dist/simulator/index.js';
import { ensureSearchAttributes } from '../../dist/temporal/search-attributes.js';

export const COMMAND = fileURLToPath(new URL('../../bin/follow-up.js', import.meta.url));
export const TASK_QUEUE = 'bench';
/** How many follow-ups are started at a time. */
const START_CONCURRENCY = 25;

/**
 * Reads the options of a benchmark. With `--help` it prints the usage and ends the process with 0, with a value that
 * does not match its pattern with 2.
 *
 * @param {string} usage
 * @param {Record<string, { default: string, pattern: RegExp }>} known
 */
export function readOptions(usage, known) {
  const fields = Object.entries(known).map(([name, { default: fallback }]) => [
    name,
    { type: 'string', default: fallback },
  ]);
  try {
    const { values } = parseArgs({ options: { ...Object.fromEntries(fields), help: { type: 'boolean', short: 'h' } } });
    if (values.help) {
      process.stdout.write(`${usage}\n`);
      process.exit(0);
    }
    if (Object.entries(known).every(([name, { pattern }]) => pattern.test(values[name]))) return values;
  } catch {
    // An option that does not exist.
  }
  process.stderr.write(`${usage}\n`);
  process.exit(2);
}

/**
 * Starts a Temporal development server in memory, a simulated service and worker processes, and stops them after `use`.
 *
 * @param {object} options
 * @param {readonly string[]} [options.args] of Node, for a worker
 * @param {number} [options.workers] number of worker processes, 1
 * @param {object} [options.settings] environment of the workers, besides the addresses
 * @param {object} [options.service] options of the simulated service
 * @param use gets the server, the service, the clients, the worker processes and their environment
 */
export async function withStack({ args = [COMMAND, 'worker'], workers: count = 1, settings, service }, use) {
  const server = await startDevServer({ env: processEnvironment() });
  const simulator = await startSimulator({ autoCreate: true, turn: { minMs: 300, maxMs: 600 }, ...service });
  const connection = await Connection.connect({ address: server.address });
  await ensureSearchAttributes(connection, 'default');
  const client = new Client({ connection });
  const env = {
    ...processEnvironment(),
    TEMPORAL_ADDRESS: server.address,
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
    FOLLOW_UP_TASK_QUEUE: TASK_QUEUE,
    FOLLOW_UP_STATUS_ADDRESS: 'off',
    FOLLOW_UP_LOG_LEVEL: 'error',
    ...settings,
  };
  const workers = Array.from({ length: count }, () =>
    spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'inherit'] }),
  );
  const ended = workers.map((worker) => once(worker, 'exit'));
  const failed = Promise.race(ended).then(() => Promise.reject(new Error('a worker ended')));
  failed.catch(() => undefined);
  try {
    const followUps = new FollowUpClient({ client, taskQueue: TASK_QUEUE });
    return await Promise.race([use({ server, simulator, client, followUps, workers, env }), failed]);
  } finally {
    for (const worker of workers) worker.kill('SIGTERM');
    await Promise.all(ended);
    await connection.close();
    await simulator.close();
    await server.stop();
  }
}

/** Calls `start` with each input, in their order, several at a time. Returns the answers. */
export async function startAll(inputs, start) {
  const started = [];
  let next = 0;
  const run = async () => {
    for (let index = next++; index < inputs.length; index = next++) started[index] = await start(inputs[index]);
  };
  await Promise.all(Array.from({ length: START_CONCURRENCY }, run));
  return started;
}
