import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { bundleWorkflowCode } from '@temporalio/worker';
import { FollowUpClient } from '../../dist/client/index.js';
import { processEnvironment } from '../../dist/config/settings-reader.js';
import { createLogger, toTemporalLogger } from '../../dist/logging.js';
import { workflowBundleOptions } from '../../dist/worker/options.js';
import { DATABASES } from './databases.js';
import { startJobService } from './job-service.js';
import { FOLLOW_UPS_PER_PROJECT, PROJECTS, SLOW_READ_MS, TASK_QUEUE, WARM_UP_FOLLOW_UPS } from './settings.js';

const WORKER = fileURLToPath(new URL('./worker-process.js', import.meta.url));
/** How many starts are under way at once. */
const START_CONCURRENCY = 50;
/** Longest wait for the end of follow-ups. */
const RESULTS_LIMIT_MS = 600_000;
/** `/proc/PID/stat` counts in hundredths of a second on every Linux. */
const TICKS_PER_SECOND = 100;

/** The settings of the memory allocator in the image, for all sides. */
const ALLOCATOR = Object.fromEntries(
  [
    ...readFileSync(new URL('../../deploy/Dockerfile', import.meta.url), 'utf8').matchAll(/^ENV (MALLOC_\w+)=(\S+)$/gm),
  ].map(([, name, value]) => [name, value]),
);

/** CPU time in seconds of a process and its children, living and dead, since its start. */
function cpuSeconds(pid) {
  // The second field is the name, in parentheses, and may contain anything. Fields 14 to 17 are the user and system
  // time of the process and of its children that have ended.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
  return children.reduce((sum, child) => sum + cpuSeconds(child), ticks / TICKS_PER_SECOND);
}

/** Like `Promise.all(items.map(work))`, but with a few items at a time. */
async function mapConcurrently(items, work) {
  const results = [];
  let next = 0;
  const run = async () => {
    for (let index = next++; index < items.length; index = next++) results[index] = await work(items[index], index);
  };
  await Promise.all(Array.from({ length: START_CONCURRENCY }, run));
  return results;
}

/** Starts a worker process. `failed` rejects when the process ends. */
async function startWorkerProcess(options) {
  const env = { ...processEnvironment(), ...ALLOCATOR };
  const child = fork(WORKER, [JSON.stringify(options)], { execArgv: ['--expose-gc'], env });
  const exited = once(child, 'exit');
  const failed = exited.then(([code]) => Promise.reject(new Error(`the worker of ${options.side} ended: ${code}`)));
  failed.catch(() => undefined);
  const answer = async () => (await Promise.race([once(child, 'message'), failed]))[0];
  await answer();
  return {
    pid: child.pid,
    failed,
    measure: () => {
      child.send('measure');
      return answer();
    },
    stop: async () => {
      if (child.connected) child.send('stop');
      await exited;
    },
  };
}

/**
 * Bundles a side's workflows into `directory`, and returns the bundle's path. This project's workflows have the options
 * of its worker, the others have none. The worker process does not bundle, because the bundler would stay in its
 * memory.
 */
export async function bundleSide(side, directory) {
  const log = createLogger({ level: 'warn', format: 'json' });
  const workflowsPath = fileURLToPath(new URL(`./${side}-workflows.js`, import.meta.url));
  const options = side === 'product' ? workflowBundleOptions(workflowsPath) : { workflowsPath };
  const { code } = await bundleWorkflowCode({ ...options, logger: toTemporalLogger(() => log) });
  const path = join(directory, `${side}.js`);
  await writeFile(path, code);
  return path;
}

/**
 * Starts one side with a Temporal server, a job service and a worker process of its own, and warms it up.
 *
 * @param {object} options
 * @param {'product' | 'naive' | 'bare'} options.side
 * @param {string} options.bundlePath the side's workflow bundle
 * @param {'sqlite' | 'postgres'} options.database of the Temporal server
 */
export async function startSide({ side, bundlePath, database, env }) {
  const closers = [];
  const stop = async () => {
    for (const close of closers.splice(0).reverse()) await close();
  };
  try {
    const server = await DATABASES[database](env);
    closers.push(() => server.stop());
    const service = await startJobService(looksOf, readTakesMs);
    closers.push(() => service.close());
    const worker = await startWorkerProcess({ side, address: server.address, baseUrl: service.baseUrl, bundlePath });
    closers.push(() => worker.stop());
    const connection = await Connection.connect({ address: server.address });
    closers.push(() => connection.close());
    const client = new Client({ connection });
    const started = new Side({ side, server, service, worker, client });
    await started.results(await started.start('warm-up', WARM_UP_FOLLOW_UPS, 200));
    return { running: started, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Looks after a message until a job shows its end, by the job's name. `look-` and `slow-` never show it. */
function looksOf(jobId) {
  return /^(look|slow)-/.test(jobId) ? Infinity : Number(/^run-(\d+)-/.exec(jobId)?.[1] ?? 2);
}

function readTakesMs(jobId) {
  return jobId.startsWith('slow-') ? SLOW_READ_MS : 0;
}

class Side {
  #side;
  #server;
  #worker;
  #followUps;

  constructor({ side, server, service, worker, client }) {
    this.#side = side;
    this.#server = server;
    this.#worker = worker;
    this.#followUps = new FollowUpClient({ client, taskQueue: TASK_QUEUE });
    this.service = service;
    this.client = client;
  }

  /** Starts `count` follow-ups, each of a job of its own, named after `prefix`, with `intervalMs` between two polls. */
  start(prefix, count, intervalMs) {
    const projects = Math.max(PROJECTS, Math.ceil(count / FOLLOW_UPS_PER_PROJECT));
    const jobs = Array.from({ length: count }, (_, index) => ({
      projectId: `${prefix}-${index % projects}`,
      jobId: `${prefix}-job-${index}`,
    }));
    return mapConcurrently(jobs, async (job) => ({ ...job, workflowId: await this.#startOne(job, intervalMs) }));
  }

  async #startOne({ projectId, jobId }, intervalMs) {
    const prompt = 'Please add a test for the empty list, and keep the public types as they are.';
    if (this.#side === 'product') {
      const poll = { initialInterval: intervalMs, maxInterval: intervalMs, backoffCoefficient: 1 };
      const { workflowId } = await this.#followUps.start({ projectId, jobId, prompt, poll });
      return workflowId;
    }
    const workflowId = `${this.#side}/${jobId}`;
    const args = [{ projectId, jobId, prompt, intervalMs }];
    await this.client.workflow.start(`${this.#side}FollowUp`, { workflowId, taskQueue: TASK_QUEUE, args });
    return workflowId;
  }

  /** Waits for the end of all. Throws if one does not complete, or not in time. */
  async results(followUps) {
    const limit = new globalThis.AbortController();
    const late = delay(RESULTS_LIMIT_MS, undefined, { signal: limit.signal }).then(() => {
      throw new Error(`${followUps.length} follow-ups did not all end within ${RESULTS_LIMIT_MS} ms`);
    });
    late.catch(() => undefined);
    const waits = followUps.map(async ({ workflowId }) => {
      const { status } = await this.client.workflow
        .getHandle(workflowId)
        .result()
        .catch((error) => {
          throw new Error(`${workflowId}: ${error.cause?.message ?? error.message}`, { cause: error });
        });
      if (status !== 'completed') throw new Error(`${workflowId} ended as ${status}`);
    });
    try {
      await Promise.race([Promise.all(waits), late, this.#worker.failed]);
    } finally {
      limit.abort();
    }
  }

  /** The workflows that keep the budgets of these follow-ups' projects. */
  budgets(followUps) {
    if (this.#side !== 'product') return [];
    return [...new Set(followUps.map(({ projectId }) => projectId))].map((projectId) => `project-budget/${projectId}`);
  }

  describe(workflowIds) {
    return mapConcurrently(workflowIds, (workflowId) => this.client.workflow.getHandle(workflowId).describe());
  }

  async serverVersion() {
    return (await this.client.connection.workflowService.getSystemInfo({})).serverVersion;
  }

  cpuSeconds() {
    const server = this.#server.pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
    return { worker: cpuSeconds(this.#worker.pid), server };
  }

  /** Size of the server's database in bytes. */
  databaseBytes() {
    return this.#server.databaseBytes();
  }

  /** Resident memory of the worker's process in bytes, after collecting the garbage of all its heaps. */
  async residentBytes() {
    const taskQueues = this.#side === 'product' ? [TASK_QUEUE, `${TASK_QUEUE}-budget`] : [TASK_QUEUE];
    for (let round = 1; round <= 2; round++) {
      for (const taskQueue of taskQueues) {
        await this.client.workflow.execute('collectGarbage', { workflowId: `collect-garbage/${taskQueue}`, taskQueue });
      }
      await this.#worker.measure();
    }
    return (await this.#worker.measure()).residentBytes;
  }
}
