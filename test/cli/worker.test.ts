import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type Simulator, startSimulator } from '../../src/simulator/index.js';
import { eventually } from '../support/eventually.js';
import { runCli, startCli } from './run-cli.js';

const apiKey = `key-${randomUUID()}`;
let simulator: Simulator;
beforeAll(async () => {
  simulator = await startSimulator({ autoCreate: true, apiKey, turn: { minMs: 300, maxMs: 600 } });
});
afterAll(() => simulator.close());

test('the worker command says when it is ready, works, ends cleanly at SIGTERM, and never shows its API key', async () => {
  const env = { TEMPORAL_ADDRESS: inject('temporalAddress'), FOLLOW_UP_TASK_QUEUE: `cli-worker-${randomUUID()}` };
  const worker = startCli(['worker', '--json'], {
    env: {
      ...env,
      AGENT_JOBS_BASE_URL: simulator.baseUrl,
      AGENT_JOBS_API_KEY: apiKey,
      FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
      FOLLOW_UP_LOG_LEVEL: 'debug',
    },
  });
  try {
    const line = await eventually('it is ready', () => (worker.stdout().includes('\n') ? worker.stdout() : undefined));
    const { taskQueue, statusUrl } = JSON.parse(line);
    expect(taskQueue).toBe(env.FOLLOW_UP_TASK_QUEUE);
    expect((await fetch(`${statusUrl}/readyz`)).status).toBe(200);
    const project = `cli-worker-${randomUUID().slice(0, 8)}`;
    const sent = await runCli(['send', project, 'job-1', '-p', 'x', '--poll-initial-interval', '200ms', '--json'], {
      env,
    });
    expect(sent.exitCode).toBe(0);
    expect(JSON.parse(sent.stdout)).toMatchObject({ status: 'completed' });
  } finally {
    worker.kill('SIGTERM');
  }
  const { exitCode, stdout, stderr } = await worker.ended;
  expect(exitCode).toBe(0);
  expect(stdout + stderr).not.toContain(apiKey);
});
