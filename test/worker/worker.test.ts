import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { ConfigError } from '../../src/config/index.js';
import { createLogger } from '../../src/logging.js';
import { startSimulator, type Simulator } from '../../src/simulator/index.js';
import { startWorker, type WorkerService } from '../../src/worker.js';
import { eventually } from '../support/eventually.js';
import { logMemory, makeNamespace, testConfig } from './support.js';

const log = logMemory();
const logger = createLogger({ level: 'debug', format: 'json' }, log);

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

  test('registers the search attributes, gets ready, sends a follow-up, and shuts down', async () => {
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
      expect(metrics).toMatch(/follow_up_budget_ask_total\{[^}]*answer="granted"/);
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

  test('refuses a status address that is taken, before anything is polled', async () => {
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

  test('can do without a status server, and be shut down before it is ready', async () => {
    const service = await start({ FOLLOW_UP_STATUS_ADDRESS: 'off' });
    expect(service.statusUrl).toBeUndefined();
    await Promise.all([service.shutdown(), service.shutdown()]);
    await service.run();
  });

  test('is not ready while it shuts down, and lets a running send end', async () => {
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

  test('waits for a Temporal that is not there, says so, and can be told to stop waiting', async () => {
    const config = testConfig({ TEMPORAL_ADDRESS: '127.0.0.1:9' });
    const waits = logMemory();
    const told = new AbortController();
    const starting = startWorker({
      config,
      logger: createLogger({ level: 'info', format: 'json' }, waits),
      signal: told.signal,
    });
    starting.catch(() => undefined);
    await eventually('it says that it waits', () => waits.text().includes('Waiting for Temporal at 127.0.0.1:9'));
    told.abort(new Error('enough'));
    await expect(starting).rejects.toThrow();
  });
});
