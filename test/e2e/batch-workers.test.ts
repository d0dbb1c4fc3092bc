import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { startSimulator, type Simulator } from '../../src/simulator/index.js';
import { makeItems, startBatch } from '../support/batch.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';

const LIMIT = 12;
const WINDOW_MS = 10_000;
const PROJECTS = 10;
const EACH = 20;
const command = join(import.meta.dirname, '..', '..', 'bin', 'follow-up.js');
const taskQueue = `batch-${randomUUID()}`;
const workers: ChildProcess[] = [];
let simulator: Simulator;
let connection: Connection;

beforeAll(async () => {
  simulator = await startSimulator({
    turn: { minMs: 300, maxMs: 600 },
    limiter: { kind: 'sliding', limit: LIMIT, windowMs: WINDOW_MS },
  });
  connection = await Connection.connect({ address: inject('temporalAddress') });
});
afterAll(async () => {
  for (const worker of workers) worker.kill('SIGKILL');
  await connection.close();
  await simulator.close();
});

async function startWorkerProcess(): Promise<ChildProcess> {
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(process.execPath, [command, 'worker', '--json'], {
    env: {
      PATH,
      HOME,
      TEMPORAL_ADDRESS: inject('temporalAddress'),
      AGENT_JOBS_BASE_URL: simulator.baseUrl,
      AGENT_JOBS_API_KEY: simulator.apiKey,
      FOLLOW_UP_TASK_QUEUE: taskQueue,
      FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
      FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`,
      FOLLOW_UP_BUDGET_WINDOW: '10s',
      FOLLOW_UP_MARGIN: '200ms',
      FOLLOW_UP_SEND_TIMEOUT: '2s',
      FOLLOW_UP_DRAIN: '1s',
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  workers.push(child);
  let stdout = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  await eventually('it takes follow-ups', () => stdout.includes('"identity"'), 60_000);
  return child;
}

test('200 items over 10 projects, one of two workers killed amid: 200 outcomes that agree with the ledger', async () => {
  const [doomed] = await Promise.all([startWorkerProcess(), startWorkerProcess()]);
  const batchId = `killed-${Date.now()}`;
  const projects = Array.from({ length: PROJECTS }, (_, index) => `${batchId}-${index}`);
  const items = makeItems({ simulator }, projects, EACH, FAST);
  const client = new Client({ connection });
  const batch = await startBatch({ client, taskQueue }, batchId, { items });
  const accepted = () => simulator.ledger.filter((entry) => entry.accepted);
  await eventually('a quarter is sent', () => accepted().length >= 50, 60_000);
  doomed.kill('SIGKILL');
  const result = await batch.result();
  expect(result).toMatchObject({ total: PROJECTS * EACH });
  expect(result.completed + result.errors).toBe(PROJECTS * EACH);
  for (const { projectId, jobId, status, error } of result.items) {
    const sent = accepted().filter((entry) => entry.projectId === projectId && entry.jobId === jobId).length;
    expect(sent).toBeLessThanOrEqual(1);
    if (status) expect({ jobId, sent }).toEqual({ jobId, sent: 1 });
    else expect(error).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
  }
  // Only what was on its way when the worker was killed may be in doubt.
  expect(result.unknown).toBeLessThanOrEqual(10);
  for (const projectId of projects) expect(simulator.maxInAnyWindow(projectId, WINDOW_MS)).toBeLessThanOrEqual(LIMIT);
}, 170_000);
