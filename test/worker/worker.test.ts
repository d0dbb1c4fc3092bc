import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { ConfigError } from '../../src/config/index.js';
import { projectBudgetWorkflowId, WorkflowType } from '../../src/contract/index.js';
import { type Simulator, startSimulator } from '../../src/simulator/index.js';
import { startWorker, type StartWorkerOptions } from '../../src/worker.js';
import { createLogger } from '../../src/worker/logging.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';
import { samplesOf, sumOf } from './prometheus.js';
import { logMemory, makeNamespace, testConfig } from './support.js';

const log = logMemory();
const logger = createLogger({ level: 'debug', format: 'json' }, log);

/** The name and type of each metric in docs/reference/metrics.md. */
async function documentedMetrics(): Promise<string[][]> {
  const page = await readFile(new URL('../../docs/reference/metrics.md', import.meta.url), 'utf8');
  return [...page.matchAll(/^\| `(\w+)` +\| (gauge|counter|histogram) /gm)].map(([, ...metric]) => metric);
}

let connection: Connection;
let simulator: Simulator;
/** What holds the next messages when they are in the ledger. */
let held: Promise<void> | undefined;
beforeAll(async () => {
  connection = await Connection.connect({ address: inject('temporalAddress') });
  simulator = await startSimulator(
    { turn: { minMs: 300, maxMs: 300 } },
    { onMessage: ({ step }) => (step === 'recorded' ? held : undefined) },
  );
});
afterAll(async () => {
  await simulator.close();
  await connection.close();
});

/** The configuration of a worker for the simulated service, and a client of its task queue and namespace. */
function configure(env: Record<string, string> = {}) {
  const config = testConfig({ AGENT_JOBS_BASE_URL: simulator.baseUrl, AGENT_JOBS_API_KEY: simulator.apiKey, ...env });
  const client = new Client({ connection, namespace: config.temporal.namespace });
  const followUps = new FollowUpClient({ client, taskQueue: config.taskQueue });
  const start = async (more: Partial<StartWorkerOptions> = {}) => {
    const service = await startWorker({ config, logger, ...more });
    onTestFinished(() => service.shutdown());
    return service;
  };
  return { config, client, followUps, start };
}

function newInput(jobId: string) {
  const projectId = randomUUID();
  simulator.addJob({ projectId, jobId });
  return { projectId, jobId, prompt: 'Add a test', ...FAST };
}

test('a worker registers the search attributes, becomes ready, and serves the metrics that the reference lists', async () => {
  const { config, client, followUps, start } = configure({ TEMPORAL_NAMESPACE: await makeNamespace(connection) });
  const { taskQueue } = config;
  const service = await start();
  const statusOf = async (path: string) => (await fetch(`${service.statusUrl}/${path}`)).status;
  const metricsOf = async () => (await fetch(`${service.statusUrl}/metrics`)).text();
  expect(await statusOf('healthz')).toBe(200);
  await service.ready;
  expect([await statusOf('readyz'), await statusOf('other')]).toEqual([200, 404]);
  const before = await metricsOf();
  // Prometheus does not see the rise of a series that begins at 1.
  expect(samplesOf(before).get('follow_up_send_total{outcome="payment"}')).toBe(0);

  // Its workflow tasks fail, which has a metric of its own.
  await client.workflow.start('noSuchWorkflow', { taskQueue, workflowId: randomUUID() });
  const input = newInput('job');
  const { projectId } = input;
  expect(await followUps.run(input)).toMatchObject({ status: 'completed', delivery: 'sent' });
  await expect(followUps.run({ ...input, jobId: 'nobody' })).rejects.toThrow();
  const unknownJobs = [1, 2].map((n) => ({ ...input, projectId: `${projectId}-b`, jobId: `nobody-${n}` }));
  await followUps.startBatch({ id: projectId, items: unknownJobs, canary: 1 });
  const documented = await documentedMetrics();
  const text = await eventually('every metric is served', async () => {
    const served = await metricsOf();
    return documented.every(([name]) => served.includes(`# TYPE ${name} `)) ? served : undefined;
  });
  const served = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, ...metric]) => metric);
  const isOurs = ([name = '']: string[]) => !name.startsWith('temporal_');
  expect(served.filter(isOurs).sort()).toEqual(documented.filter(isOurs).sort());
  expect(served).toEqual(expect.arrayContaining(documented));
  const rise = (name: string, labels = {}) => sumOf(text, name, labels) - sumOf(before, name, labels);
  const ask = 'follow_up_budget_ask_total';
  expect({
    completed: rise('follow_up_ended_total', { failure: 'none', state: 'completed' }),
    notFound: rise('follow_up_ended_total', { failure: 'JobNotFound', state: 'not-sent' }),
    holds: rise('follow_up_batch_holds_total', { name: 'canary' }),
    sends: rise('follow_up_send_total', { outcome: 'sent' }),
    asks: rise(ask, { reply: 'granted' }) + rise(ask, { reply: 'waiting' }),
    toSend: rise('follow_up_start_to_send_seconds_count'),
    toEnd: rise('follow_up_start_to_end_seconds_count', { state: 'completed' }),
    grants: sumOf(text, 'follow_up_budget_grants_total', { project: projectId }),
    used: sumOf(text, 'follow_up_budget_used', { project: projectId }),
  }).toEqual({ completed: 1, notFound: 2, holds: 1, sends: 1, asks: 1, toSend: 1, toEnd: 1, grants: 1, used: 1 });
  const seconds = rise('follow_up_start_to_end_seconds_sum', { state: 'completed' });
  expect(seconds).toBeGreaterThan(rise('follow_up_start_to_send_seconds_sum'));
  expect(samplesOf(text).get('follow_up_worker_ready')).toBe(1);
  expect(samplesOf(text).get('process_start_time_seconds')).toBeCloseTo(Date.now() / 1_000 - process.uptime(), -1);
  expect(text).toMatch(/^follow_up_build_info\{version="\d+\.\d+\.\d+",node="v\d/m);
  expect(log.text()).toContain('The worker is ready for follow-ups');
  expect(log.text() + text).not.toContain(simulator.apiKey);
});

test('a worker that shuts down is not ready, lets a running send finish, and the next worker completes the follow-up', async () => {
  const { followUps, start } = configure();
  const first = await start();
  await first.ready;
  const input = newInput('held');
  let letGo = (): void => undefined;
  held = new Promise((resolve) => (letGo = resolve));
  const running = followUps.run(input);
  const sends = () => simulator.ledger.filter(({ projectId }) => projectId === input.projectId).length;
  await eventually('the message is under way', () => sends() === 1);
  const stopping = first.shutdown();
  expect((await fetch(`${first.statusUrl}/readyz`)).status).toBe(503);
  held = undefined;
  letGo();
  await stopping;
  await first.run();
  await expect(fetch(`${first.statusUrl}/healthz`)).rejects.toThrow();
  await start();
  expect(await running).toMatchObject({ status: 'completed', delivery: 'sent' });
  expect(sends()).toBe(1);
});

test('a worker refuses a status address that is in use', async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void other.close());
  const { port } = other.address() as AddressInfo;
  const starting = configure({ FOLLOW_UP_STATUS_ADDRESS: `127.0.0.1:${port}` }).start();
  await expect(starting).rejects.toBeInstanceOf(ConfigError);
  await expect(starting).rejects.toThrow(new RegExp(`FOLLOW_UP_STATUS_ADDRESS: 127.0.0.1:${port} is in use`));
});

test('a worker works without a status server, and can be shut down before it is ready', async () => {
  const service = await configure({ FOLLOW_UP_STATUS_ADDRESS: 'off' }).start();
  expect(service.statusUrl).toBeUndefined();
  await Promise.all([service.shutdown(), service.shutdown()]);
  await service.run();
});

test('a worker waits for an unreachable Temporal server, says so, and stops when it is aborted', async () => {
  const { config } = configure({ TEMPORAL_ADDRESS: '127.0.0.1:9' });
  const waits = logMemory();
  const stopping = new AbortController();
  const own = createLogger({ level: 'info', format: 'json' }, waits);
  const starting = expect(startWorker({ config, logger: own, signal: stopping.signal })).rejects.toThrow('enough');
  await eventually('it says that it waits', () => waits.text().includes('Waiting for Temporal at 127.0.0.1:9'));
  stopping.abort(new Error('enough'));
  await starting;
});

test('interceptors of activities and of workflows run, and the log claims nothing else', { tags: 'long' }, async () => {
  const intercepted: string[] = [];
  const activity: ActivityInterceptorsFactory = ({ info }) => ({
    inbound: { execute: (input, next) => (intercepted.push(info.activityType), next(input)) },
  });
  const workflowModules = [fileURLToPath(new URL('./workflow-interceptor.js', import.meta.url))];
  const own = logMemory();
  const { followUps, start } = configure();
  const interceptors = { activity: [activity], workflowModules };
  await start({ interceptors, logger: createLogger({ level: 'info', format: 'json' }, own) });
  await followUps.run(newInput('both'));
  expect(intercepted).toContain('sendMessage');
  expect(own.text()).toContain('the interceptor saw followUp');
  expect(own.text()).not.toContain('Ignoring');
});

test('a workflow task that takes longer than 5 s does not end the process', { tags: 'long' }, async () => {
  const { followUps, start } = configure();
  const workflowModules = [fileURLToPath(new URL('./slow-interceptor.js', import.meta.url))];
  await start({ interceptors: { workflowModules } });
  expect(await followUps.run(newInput('slow'))).toMatchObject({ status: 'completed' });
});

test(
  'a worker that shuts down while a budget does not answer waits for the ask, and ends',
  { tags: 'long' },
  async () => {
    const { config, client, followUps, start } = configure({ FOLLOW_UP_SEND_TIMEOUT: '1s' });
    const input = newInput('job');
    const { projectId } = input;
    const { maxLimit: _, ...settings } = config.budget;
    // No worker polls it.
    const taskQueue = `${config.taskQueue}-nobody`;
    const workflowId = projectBudgetWorkflowId(projectId);
    await client.workflow.start(WorkflowType.projectBudget, { workflowId, taskQueue, args: [{ projectId, settings }] });
    const worker = await start();
    await worker.ready;
    const followUp = client.workflow.getHandle((await followUps.start(input)).workflowId);
    onTestFinished(() => followUp.terminate().then(() => undefined));
    await eventually('the budget is asked', async () => {
      const { raw } = await followUp.describe();
      return raw.pendingActivities?.some(({ lastStartedTime }) => lastStartedTime);
    });
    await worker.shutdown();
    // This throws if the shutdown cut the activity short.
    await worker.run();
    expect(simulator.ledger.filter((entry) => entry.projectId === projectId)).toEqual([]);
  },
);
