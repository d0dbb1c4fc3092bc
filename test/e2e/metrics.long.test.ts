import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { startSimulator, type Simulator } from '../../src/simulator/index.js';
import { startCli, type CliRun } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';
import { sumOf } from '../worker/prometheus.js';

const address = inject('temporalAddress');
const taskQueue = `metrics-${randomUUID()}`;
let simulator: Simulator;
let connection: Connection;
let followUps: FollowUpClient;
let projectId: string;

interface WorkerProcess {
  text(): Promise<string>;
  /** A metric of the project's budget, by its name without the common prefix. */
  budget(name: string, labels?: Record<string, string>): Promise<number>;
  kill(): Promise<void>;
}
const processes: CliRun[] = [];

/** Starts a worker as in production: in its own process. */
async function startWorkerProcess(): Promise<WorkerProcess> {
  const run = startCli(['worker', '--json'], {
    env: {
      TEMPORAL_ADDRESS: address,
      AGENT_JOBS_BASE_URL: simulator.baseUrl,
      AGENT_JOBS_API_KEY: simulator.apiKey,
      FOLLOW_UP_TASK_QUEUE: taskQueue,
      FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
      FOLLOW_UP_BUDGET_LIMIT: '4',
      FOLLOW_UP_BUDGET_WINDOW: '1h',
      FOLLOW_UP_BUDGET_MAX_LIMIT: '100',
      FOLLOW_UP_MARGIN: '200ms',
      FOLLOW_UP_LOG_FORMAT: 'json',
    },
  });
  processes.push(run);
  const ready = await eventually('the worker takes follow-ups', () => run.stdout().trim());
  const { statusUrl } = JSON.parse(ready) as { statusUrl: string };
  const text = async () => (await fetch(`${statusUrl}/metrics`)).text();
  return {
    text,
    budget: async (name, labels) => sumOf(await text(), `follow_up_budget_${name}`, { project: projectId, ...labels }),
    kill: async () => {
      run.kill('SIGKILL');
      await run.ended;
    },
  };
}

beforeAll(async () => {
  simulator = await startSimulator({
    turn: { minMs: 200, maxMs: 300 },
    limiter: { kind: 'none' },
    autoCreate: true,
  });
  connection = await Connection.connect({ address });
  followUps = new FollowUpClient({ client: new Client({ connection }), taskQueue });
});
beforeEach(() => {
  projectId = `metrics-${randomUUID()}`;
});
afterEach(async () => {
  for (const run of processes.splice(0)) {
    run.kill('SIGKILL');
    await run.ended;
  }
});
afterAll(async () => {
  await connection.close();
  await simulator.close();
});

const send = (jobId: string) => followUps.start({ projectId, jobId, prompt: `message to ${jobId}`, ...FAST });

test('the metrics match the budget after sends, in a pause and after a 429', async () => {
  const worker = await startWorkerProcess();
  await Promise.all(['job-1', 'job-2'].map(async (jobId) => (await send(jobId)).result()));
  const isPaused = (reason: string) => worker.budget('paused', { reason });
  await eventually('both have ended', async () => {
    return (await worker.budget('grants_total')) === 2 && (await worker.budget('unsettled')) === 0;
  });
  expect(await worker.budget('limit')).toBe(4);
  expect(await worker.budget('window_seconds')).toBe(3_600);
  expect(await worker.budget('used')).toBe(2);
  expect(await worker.budget('waiting')).toBe(0);
  expect(await worker.budget('limited_total')).toBe(0);
  expect(await worker.budget('paused')).toBe(0);
  expect((await worker.budget('reported_timestamp_seconds')) * 1_000).toBeGreaterThan(Date.now() - 600_000);

  const budget = followUps.budget(projectId);
  await budget.pause({ note: 'maintenance' });
  const held = await send('job-3');
  await eventually('it waits in the pause', async () => {
    return (await isPaused('operator')) === 1 && (await worker.budget('waiting')) === 1;
  });
  simulator.failNext({
    method: 'POST',
    projectId,
    jobId: 'job-3',
    how: { status: 429, headers: { 'retry-after': '3' } },
  });
  await budget.resume();
  await eventually('the 429 pauses the project', async () => {
    return (await isPaused('limited')) === 1 && (await worker.budget('limited_total')) === 1;
  });
  expect(await isPaused('operator')).toBe(0);
  await held.result();
  await eventually('the pause is over', async () => (await isPaused('limited')) === 0);
  expect(await worker.budget('grants_total')).toBe(4);
  expect(await worker.budget('limited_total')).toBe(1);

  const text = await worker.text();
  expect(text).toMatch(/^temporal_/m);
  expect(text).not.toContain(simulator.apiKey);
});

test('the successor of a killed worker counts only what it does itself, and its gauges match the budget', async () => {
  const first = await startWorkerProcess();
  await (await send('job-1')).result();
  await followUps.budget(projectId).setLimit({ window: '2h' });
  await eventually('the first worker counts', async () => (await first.budget('window_seconds')) === 7_200);
  expect(await first.budget('grants_total')).toBe(1);
  await first.kill();

  const second = await startWorkerProcess();
  expect(await second.budget('grants_total')).toBe(0);
  await (await send('job-2')).result();
  await eventually('the budget has run at the second worker', async () => {
    return (await second.budget('used')) === 2 && (await second.budget('unsettled')) === 0;
  });
  expect(await second.budget('grants_total')).toBe(1);
  expect((await followUps.budget(projectId).status())?.used).toBe(2);
});
