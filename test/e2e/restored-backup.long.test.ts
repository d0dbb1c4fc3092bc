import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { expect, onTestFinished, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { loadConfig } from '../../src/config/index.js';
import { startDevServer } from '../../src/dev-server/index.js';
import { resolveTemporalCli } from '../../src/dev-server/resolve.js';
import { startSimulator } from '../../src/simulator/index.js';
import { startWorker } from '../../src/worker.js';
import { createLogger } from '../../src/worker/logging.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';

const projectId = 'demo';

test('after a restored database backup, the steps of docs/how-to/budgets.md send nothing twice and nothing over budget', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'backup-'));
  const database = join(directory, 'temporal.db');
  const simulator = await startSimulator({ turn: { minMs: 100, maxMs: 100 } });
  onTestFinished(async () => {
    await simulator.close();
    await rm(directory, { recursive: true });
  });
  const taskQueue = `backup-${randomUUID()}`;
  const accepted = () => simulator.ledger.filter((entry) => entry.accepted).map(({ jobId }) => jobId);

  /** Starts Temporal on the database file, and a client. */
  async function startTemporal() {
    const server = await startDevServer({ env: process.env, args: ['--db-filename', database] });
    const connection = await Connection.connect({ address: server.address });
    const client = new Client({ connection });
    const budgetSettings = { limit: 2, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
    const followUps = new FollowUpClient({ client, taskQueue, budgetSettings });
    const startOne = (jobId: string) => followUps.start({ projectId, jobId, prompt: 'x', key: 'k', ...FAST });
    const stop = async () => {
      await connection.close();
      await server.stop();
    };
    return { address: server.address, client, followUps, startOne, stop };
  }

  async function startOneWorker(address: string) {
    const config = loadConfig({
      TEMPORAL_ADDRESS: address,
      AGENT_JOBS_BASE_URL: simulator.baseUrl,
      AGENT_JOBS_API_KEY: simulator.apiKey,
      FOLLOW_UP_TASK_QUEUE: taskQueue,
      FOLLOW_UP_BUDGET_LIMIT: '2',
      FOLLOW_UP_DRAIN: '1s',
      FOLLOW_UP_SEND_TIMEOUT: '1s',
      FOLLOW_UP_STATUS_ADDRESS: 'off',
    });
    const logger = createLogger({ level: 'silent', format: 'json' });
    const worker = await startWorker({ config, logger });
    await worker.ready;
    return worker;
  }

  // Before the backup, a follow-up waits in a pause.
  simulator.addJob({ projectId, jobId: 'waiting' });
  let temporal = await startTemporal();
  let worker = await startOneWorker(temporal.address);
  await temporal.followUps.budget(projectId).pause();
  const waiting = await temporal.startOne('waiting');
  await eventually('it waits', async () => (await waiting.progress()).waitReason === 'paused');
  await worker.shutdown();
  await temporal.stop();
  const files = (await readdir(directory)).filter((name) => name.startsWith('temporal.db'));
  for (const name of files) await copyFile(join(directory, name), join(directory, `copy-${name}`));

  // After the backup, the message is sent. Then the database is lost.
  temporal = await startTemporal();
  worker = await startOneWorker(temporal.address);
  await temporal.followUps.budget(projectId).resume();
  expect(await temporal.followUps.handle(waiting.workflowId).result()).toMatchObject({ delivery: 'sent' });
  await worker.shutdown();
  await temporal.stop();
  expect(accepted()).toEqual(['waiting']);
  for (const name of await readdir(directory)) {
    if (name.startsWith('temporal.db')) await rm(join(directory, name));
  }
  for (const name of files) await copyFile(join(directory, `copy-${name}`), join(directory, name));

  // The steps of the page.
  temporal = await startTemporal();
  const { followUps, client } = temporal;
  const projects: string[] = [];
  for await (const budget of followUps.budgets()) projects.push(budget.projectId);
  expect(projects).toEqual([projectId]);
  const path = await resolveTemporalCli({ env: process.env });
  const reset = ['workflow', 'reset', '--type', 'FirstWorkflowTask', '--reason', 'restored backup'];
  const which = ['--workflow-id', waiting.workflowId, '--address', temporal.address];
  await promisify(execFile)(path, [...reset, ...which]);
  const budget = followUps.budget(projectId);
  await client.workflow.getHandle(budget.workflowId).terminate('restored backup');
  expect(await budget.restore({ assumeFull: true })).toMatchObject({ settings: { limit: 2, windowMs: 3_600_000 } });
  worker = await startOneWorker(temporal.address);
  await eventually('it has counted', async () => (await budget.status())?.isCounting === undefined);
  expect(await budget.status()).toMatchObject({ used: 2, limit: 2 });
  const end = await followUps
    .handle(waiting.workflowId)
    .result()
    .catch((error: unknown) => error);
  expect(end).toMatchObject({ delivered: 'unknown' });
  simulator.addJob({ projectId, jobId: 'new' });
  const later = await temporal.startOne('new');
  await eventually('a new one waits for the window to end', async () => {
    return (await later.progress()).state === 'waiting-for-budget';
  });
  expect(accepted()).toEqual(['waiting']);
  await worker.shutdown();
  await temporal.stop();
}, 600_000);
