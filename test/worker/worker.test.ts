import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { ConfigError } from '../../src/config/index.js';
import { followUpBatchWorkflowId } from '../../src/contract/index.js';
import { createLogger } from '../../src/logging.js';
import { startSimulator, type Simulator } from '../../src/simulator/index.js';
import { startWorker, type WorkerService } from '../../src/worker.js';
import { eventually } from '../support/eventually.js';
import { samplesOf, sumOf } from './prometheus.js';
import { logMemory, makeNamespace, testConfig } from './support.js';

const log = logMemory();
const logger = createLogger({ level: 'debug', format: 'json' }, log);

/** The name and type of each metric in docs/reference/metrics.md. */
async function documentedMetrics(): Promise<string[][]> {
  const page = await readFile(new URL('../../docs/reference/metrics.md', import.meta.url), 'utf8');
  return [...page.matchAll(/^\| `(\w+)` +\| (gauge|counter|histogram) /gm)].map(([, name = '', type = '']) => [
    name,
    type,
  ]);
}

/** An address at which nothing listens. */
async function freeAddress(): Promise<AddressInfo> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return address;
}

async function statusOf(url: string | undefined): Promise<number> {
  return (await fetch(String(url))).status;
}

describe('a worker', () => {
  let connection: Connection;
  let simulator: Simulator;
  beforeAll(async () => {
    connection = await Connection.connect({ address: inject('temporalAddress') });
    simulator = await startSimulator({ turn: { minMs: 300, maxMs: 300 } });
  });
  afterAll(async () => {
    await simulator.close();
    await connection.close();
  });

  function start(env: Record<string, string> = {}): Promise<WorkerService> {
    const config = testConfig({
      AGENT_JOBS_BASE_URL: simulator.baseUrl,
      AGENT_JOBS_API_KEY: simulator.apiKey,
      ...env,
    });
    return startWorker({ config, logger });
  }

  test('registers the search attributes, becomes ready, sends a follow-up, and shuts down', async () => {
    const namespace = await makeNamespace(connection);
    const config = testConfig({
      AGENT_JOBS_BASE_URL: simulator.baseUrl,
      AGENT_JOBS_API_KEY: simulator.apiKey,
      TEMPORAL_NAMESPACE: namespace,
    });
    const service = await startWorker({ config, logger });
    try {
      expect(await statusOf(`${service.statusUrl}/healthz`)).toBe(200);
      await service.ready;
      expect(await statusOf(`${service.statusUrl}/readyz`)).toBe(200);
      expect(await statusOf(`${service.statusUrl}/other`)).toBe(404);

      simulator.addJob({ projectId: 'p1', jobId: 'j1' });
      const client = new Client({ connection, namespace });
      const followUps = new FollowUpClient({ client, taskQueue: config.taskQueue });
      const result = await followUps.run({
        projectId: 'p1',
        jobId: 'j1',
        prompt: 'Add a test',
        poll: { initialInterval: '100ms' },
        settleTime: '1s',
      });
      expect(result).toMatchObject({ status: 'completed', delivery: 'sent' });
      expect(simulator.ledger).toHaveLength(1);

      const metrics = await eventually('the metrics count the send', async () => {
        const text = await (await fetch(`${service.statusUrl}/metrics`)).text();
        return text.includes('follow_up_send_total') ? text : undefined;
      });
      expect(metrics).toMatch(/follow_up_send_total\{[^}]*outcome="sent"[^}]*\} 1/);
      expect(metrics).toMatch(/follow_up_budget_ask_total\{[^}]*answer="(granted|waiting)"/);
      expect(metrics).toContain('temporal_worker_task_slots_available');
      expect(metrics).not.toContain(simulator.apiKey);
    } finally {
      await service.shutdown();
    }
    await service.run();
    await expect(fetch(`${service.statusUrl}/healthz`)).rejects.toThrow();
    expect(log.text()).toContain('The worker takes follow-ups');
    expect(log.text()).not.toContain(simulator.apiKey);
  });

  test('serves the metrics that the reference lists, with their types, and no others of its own', async () => {
    const config = testConfig({
      AGENT_JOBS_BASE_URL: simulator.baseUrl,
      AGENT_JOBS_API_KEY: simulator.apiKey,
    });
    const service = await startWorker({ config, logger });
    const client = new Client({ connection });
    const { taskQueue } = config;
    const projectId = randomUUID();
    // Its workflow tasks fail, which has a metric of its own.
    const unknownType = await client.workflow.start('noSuchWorkflow', { taskQueue, workflowId: randomUUID() });
    try {
      await service.ready;
      const before = await (await fetch(`${service.statusUrl}/metrics`)).text();
      // Prometheus does not see the rise of a series that begins at 1.
      expect(samplesOf(before).get('follow_up_send_total{outcome="payment"}')).toBe(0);
      simulator.addJob({ projectId, jobId: 'j3' });
      const input = { projectId, jobId: 'j3', prompt: 'x', poll: { initialInterval: '100ms' }, settleTime: '1s' };
      const followUps = new FollowUpClient({ client, taskQueue });
      expect(await followUps.run(input)).toMatchObject({ status: 'completed' });
      await expect(followUps.run({ ...input, jobId: 'nobody' })).rejects.toThrow();
      const unknownJobs = [1, 2].map((n) => ({ ...input, projectId: `${projectId}-b`, jobId: `nobody-${n}` }));
      await followUps.startBatch({ id: projectId, items: unknownJobs, canary: 1 });
      const documented = await documentedMetrics();
      const text = await eventually('every metric is served', async () => {
        const served = await (await fetch(`${service.statusUrl}/metrics`)).text();
        return documented.every(([name]) => served.includes(`# TYPE ${name} `)) ? served : undefined;
      });
      const served = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = '', type = '']) => [name, type]);
      const isOurs = ([name = '']: string[]) => !name.startsWith('temporal_');
      expect(served.filter(isOurs).sort()).toEqual(documented.filter(isOurs).sort());
      expect(served).toEqual(expect.arrayContaining(documented));
      const rise = (name: string, labels = {}) => sumOf(text, name, labels) - sumOf(before, name, labels);
      expect(rise('follow_up_ended_total', { failure: 'none', state: 'completed' })).toBe(1);
      expect(rise('follow_up_ended_total', { failure: 'JobNotFound', state: 'not-sent' })).toBe(2);
      expect(rise('follow_up_batch_holds_total', { name: 'canary' })).toBe(1);
      expect(rise('follow_up_send_total', { outcome: 'sent' })).toBe(1);
      expect(rise('follow_up_start_to_send_seconds_count')).toBe(1);
      expect(rise('follow_up_start_to_end_seconds_count', { state: 'completed' })).toBe(1);
      expect(rise('follow_up_start_to_end_seconds_sum', { state: 'completed' })).toBeGreaterThan(
        rise('follow_up_start_to_send_seconds_sum'),
      );
      expect(sumOf(text, 'follow_up_budget_grants_total', { project: projectId })).toBe(1);
      expect(sumOf(text, 'follow_up_budget_used', { project: projectId })).toBe(1);
      expect(samplesOf(text).get('follow_up_worker_ready')).toBe(1);
      expect(samplesOf(text).get('process_start_time_seconds')).toBeCloseTo(Date.now() / 1_000 - process.uptime(), -1);
      expect(text).toMatch(/^follow_up_build_info\{version="\d+\.\d+\.\d+",node="v\d/m);
    } finally {
      await unknownType.terminate();
      await client.workflow.getHandle(followUpBatchWorkflowId({ batchId: projectId })).terminate();
      await service.shutdown();
    }
  });

  test('refuses a status address that is in use', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    try {
      const starting = start({ FOLLOW_UP_STATUS_ADDRESS: `127.0.0.1:${port}` });
      await expect(starting).rejects.toBeInstanceOf(ConfigError);
      await expect(starting).rejects.toThrow(new RegExp(`FOLLOW_UP_STATUS_ADDRESS: 127.0.0.1:${port} is taken`));
    } finally {
      await new Promise((resolve) => other.close(resolve));
    }
  });

  test('works without a status server, and can be shut down before it is ready', async () => {
    const service = await start({ FOLLOW_UP_STATUS_ADDRESS: 'off' });
    expect(service.statusUrl).toBeUndefined();
    await Promise.all([service.shutdown(), service.shutdown()]);
    await service.run();
  });

  test('is not ready while it shuts down, and lets a running send finish', { tags: 'long' }, async () => {
    simulator.addJob({ projectId: 'p2', jobId: 'j2' });
    const config = testConfig({
      AGENT_JOBS_BASE_URL: simulator.baseUrl,
      AGENT_JOBS_API_KEY: simulator.apiKey,
    });
    const first = await startWorker({ config, logger });
    await first.ready;
    simulator.update({ latency: { minMs: 1_500, maxMs: 1_500 } });
    const followUps = new FollowUpClient({ client: new Client({ connection }), taskQueue: config.taskQueue });
    const before = simulator.ledger.length;
    const running = followUps.run({
      projectId: 'p2',
      jobId: 'j2',
      prompt: 'Add a test',
      poll: { initialInterval: '100ms' },
      settleTime: '1s',
    });
    await eventually('the message is under way', () => simulator.ledger.length > before);
    const stopping = first.shutdown();
    expect(await statusOf(`${first.statusUrl}/readyz`)).toBe(503);
    await stopping;
    simulator.update({ latency: { minMs: 0, maxMs: 0 } });
    const second = await startWorker({ config, logger });
    try {
      expect(await running).toMatchObject({ status: 'completed', delivery: 'sent' });
      expect(simulator.ledger.length - before).toBe(1);
    } finally {
      await second.shutdown();
    }
  });

  test(
    'waits for an unreachable Temporal server, says so, and can be told to stop waiting',
    { tags: 'long' },
    async () => {
      const config = testConfig({ TEMPORAL_ADDRESS: '127.0.0.1:9' });
      const waits = logMemory();
      const told = new AbortController();
      const { port } = await freeAddress();
      const starting = startWorker({
        config: { ...config, status: { host: '127.0.0.1', port } },
        logger: createLogger({ level: 'info', format: 'json' }, waits),
        signal: told.signal,
      });
      starting.catch(() => undefined);
      await eventually('it says that it waits', () => waits.text().includes('Waiting for Temporal at 127.0.0.1:9'));
      const metrics = await fetch(`http://127.0.0.1:${port}/metrics`);
      expect(metrics.status).toBe(200);
      expect(samplesOf(await metrics.text()).get('follow_up_worker_ready')).toBe(0);
      told.abort(new Error('enough'));
      await expect(starting).rejects.toThrow();
    },
  );
});
