import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import { createLogger } from '../../src/logging.js';
import { startSimulator, type Simulator } from '../../src/simulator/index.js';
import { BudgetMetrics } from '../../src/worker/budget-metrics.js';
import { dropBudgetsElsewhere } from '../../src/worker/budget-whereabouts.js';
import { startCli, type CliRun } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';
import { budgetSamples, samplesOf } from '../worker/prometheus.js';

const address = inject('temporalAddress');
const WINDOW_MS = 8_000;
const taskQueue = `metrics-${randomUUID()}`;
let simulator: Simulator;
let connection: Connection;
let client: Client;
let followUps: FollowUpClient;
let projectId: string;

interface WorkerProcess {
  identity: string;
  text(): Promise<string>;
  budget(): Promise<Record<string, number>>;
  end(signal: NodeJS.Signals): Promise<void>;
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
  const { identity, statusUrl } = JSON.parse(ready) as { identity: string; statusUrl: string };
  const text = async () => (await fetch(`${statusUrl}/metrics`)).text();
  return {
    identity,
    text,
    budget: async () => budgetSamples(await text(), projectId),
    end: async (signal) => {
      run.kill(signal);
      await run.ended;
    },
  };
}

beforeAll(async () => {
  simulator = await startSimulator({
    turn: { minMs: 200, maxMs: 300 },
    limiter: { kind: 'none' },
    autoCreate: true,
    retryAfter: 'seconds',
    faultRetryAfterMs: 3_000,
  });
  connection = await Connection.connect({ address });
  client = new Client({ connection });
  followUps = new FollowUpClient({ client, taskQueue });
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
const historyLength = async () =>
  (await client.workflow.getHandle(projectBudgetWorkflowId(projectId)).describe()).historyLength;

test('the metrics match the budget after sends, in a pause, after a 429, and after a window without any event', async () => {
  const worker = await startWorkerProcess();
  await Promise.all(['job-1', 'job-2'].map(async (jobId) => (await send(jobId)).result()));
  await eventually('both have ended', async () => (await worker.budget())['unsettled'] === 0);
  expect(await worker.budget()).toMatchObject({
    limit: 4,
    window_seconds: 3_600,
    used: 2,
    waiting: 0,
    waiting_for_job: 0,
    utilisation_ratio: 0.5,
    grants_total: 2,
    limited_total: 0,
    'paused{reason="operator"}': 0,
    'paused{reason="limited"}': 0,
    'paused{reason="credentials"}': 0,
  });

  const budget = followUps.budget(projectId);
  await budget.pause({ note: 'maintenance' });
  const held = await send('job-3');
  await eventually('it waits in the pause', async () => {
    const now = await worker.budget();
    return now['paused{reason="operator"}'] === 1 && now['waiting'] === 1;
  });
  simulator.failNext({ method: 'POST', projectId, jobId: 'job-3', kind: 'limited' });
  await budget.resume();
  await eventually('the 429 pauses the project', async () => {
    const now = await worker.budget();
    return now['paused{reason="limited"}'] === 1 && now['limited_total'] === 1;
  });
  expect(await worker.budget()).toMatchObject({ 'paused{reason="operator"}': 0, grants_total: 3 });
  await held.result();
  await eventually('the pause is over', async () => (await worker.budget())['paused{reason="limited"}'] === 0);
  expect(await worker.budget()).toMatchObject({ grants_total: 4, limited_total: 1, waiting: 0 });

  await budget.setLimit({ window: `${WINDOW_MS}ms` });
  let status = await budget.status();
  let before: Record<string, number | undefined>;
  // A slot may end between two reads of the budget. Then the metric may be either.
  for (;;) {
    before = { events: await historyLength(), ...(await worker.budget()) };
    const { used } = status ?? {};
    status = await budget.status();
    if (status?.used === used) break;
  }
  expect(before).toMatchObject({ used: status?.used, unsettled: 0 });
  await eventually('every slot has ended', async () => (await worker.budget())['used'] === 0, 3 * WINDOW_MS);
  expect((await budget.status())?.used).toBe(0);
  expect(await worker.budget()).toMatchObject({
    utilisation_ratio: 0,
    grants_total: 4,
    reported_timestamp_seconds: before['reported_timestamp_seconds'],
  });
  expect(await historyLength()).toBe(before['events']);

  const text = await worker.text();
  expect(samplesOf(text).get('follow_up_budget_projects')).toBe(1);
  expect(text).toMatch(/^temporal_/m);
  expect(text).not.toContain(simulator.apiKey);
});

test('the successor of a killed worker counts only what it does itself, and its gauges match the budget', async () => {
  const first = await startWorkerProcess();
  await (await send('job-1')).result();
  await followUps.budget(projectId).setLimit({ window: '2h' });
  expect(await first.budget()).toMatchObject({ used: 1, grants_total: 1, window_seconds: 7_200 });
  await first.end('SIGKILL');

  const second = await startWorkerProcess();
  expect(await second.budget()).toEqual({});
  await (await send('job-2')).result();
  await eventually('the budget has run at the second worker', async () => (await second.budget())['unsettled'] === 0);
  expect(await second.budget()).toMatchObject({ used: 2, grants_total: 1, utilisation_ratio: 0.5 });
  const status = await followUps.budget(projectId).status();
  expect(status?.used).toBe(2);
});

test('a worker drops the metrics of a budget that moved to another worker or was stopped, and no others', async () => {
  const worker = await startWorkerProcess();
  await (await send('job-1')).result();
  const stop = new AbortController();
  const logger = createLogger({ level: 'silent', format: 'json' });
  const shared = { namespace: 'default', logger, signal: stop.signal, silentForMs: 0, everyMs: 50 };
  const known = (id: string) => {
    const metrics = new BudgetMetrics();
    const facts = {
      ...{ projectId: id, limit: 4, windowMs: WINDOW_MS, slotEndsMs: [], sentAtMs: [], leaseEndsMs: [] },
      ...{ waiting: 0, waitingForJob: 0 },
    };
    const none = { from: 0, to: 0 };
    metrics.report('run', { facts, budgetTimeMs: Date.now(), grants: none, limited: none });
    return metrics;
  };
  const own = known(projectId);
  const elsewhere = known(projectId);
  const missing = known(`never-${randomUUID()}`);
  const watches = [
    dropBudgetsElsewhere(connection, own, { ...shared, identity: worker.identity }),
    dropBudgetsElsewhere(connection, elsewhere, { ...shared, identity: 'another worker' }),
    dropBudgetsElsewhere(connection, missing, { ...shared, identity: worker.identity }),
  ];
  await eventually('the others drop it', () =>
    [elsewhere, missing].every((metrics) => metrics.silentProjects(0).length === 0),
  );
  expect(own.silentProjects(0)).toEqual([projectId]);
  await client.workflow.getHandle(projectBudgetWorkflowId(projectId)).terminate('by hand');
  await eventually('a stopped budget has no metrics', () => own.silentProjects(0).length === 0);
  stop.abort();
  await Promise.all(watches);
});
