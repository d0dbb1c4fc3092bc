import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { closeSync, existsSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { expect, inject, onTestFinished, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { startSimulator } from '../../src/simulator/index.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { startWorker } from '../../src/worker.js';
import { createLogger } from '../../src/worker/logging.js';
import { runCli, startCli } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';
import { logMemory, makeNamespace, testConfig } from './support.js';

const command = join(import.meta.dirname, '..', '..', 'bin', 'follow-up.js');
const SECRET = 'key-live-0123456789';

const settings = (env: Record<string, string> = {}) => ({
  TEMPORAL_ADDRESS: inject('temporalAddress'),
  AGENT_JOBS_BASE_URL: 'http://127.0.0.1:9',
  AGENT_JOBS_API_KEY: SECRET,
  FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
  FOLLOW_UP_TASK_QUEUE: `process-test-${randomUUID()}`,
  FOLLOW_UP_LOG_LEVEL: 'debug',
  ...env,
});

function startProcess(env: Record<string, string>) {
  const worker = startCli(['worker', '--json'], { env });
  onTestFinished(() => worker.kill('SIGKILL'));
  return worker;
}

test.skipIf(!existsSync('/dev/full'))(
  'a worker takes follow-ups although the disk of its log is full and nobody reads its output, and ends at SIGHUP',
  async () => {
    const simulator = await startSimulator({ apiKey: SECRET, turn: { minMs: 300, maxMs: 600 } });
    const connection = await Connection.connect({ address: inject('temporalAddress') });
    const full = openSync('/dev/full', 'w');
    onTestFinished(async () => {
      closeSync(full);
      await connection.close();
      await simulator.close();
    });
    const { PATH = '', HOME = '' } = process.env;
    const env = { PATH, HOME, ...settings({ AGENT_JOBS_BASE_URL: simulator.baseUrl }) };
    const child = spawn(process.execPath, [command, 'worker', '--json'], { env, stdio: ['ignore', full, full] });
    onTestFinished(() => void child.kill('SIGKILL'));
    const exited = new Promise<number | null>((resolve) => child.once('close', resolve));
    const taskQueue = env.FOLLOW_UP_TASK_QUEUE;
    simulator.addJob({ projectId: taskQueue, jobId: 'job' });
    const followUps = new FollowUpClient({ client: new Client({ connection }), taskQueue });
    await ensureSearchAttributes(connection, 'default');
    const { status } = await followUps.run({ projectId: taskQueue, jobId: 'job', prompt: 'Go on.', ...FAST });
    expect(status).toBe('completed');
    child.kill('SIGHUP');
    expect(await exited).toBe(0);
  },
);

test('a worker refuses to start on Bun, which would poll nothing', async () => {
  const { versions } = process;
  Object.defineProperty(process, 'versions', { value: { ...versions, bun: '1.3.0' } });
  try {
    const logger = createLogger({ level: 'silent', format: 'json' }, logMemory());
    const message = expect.stringContaining('the worker does not run on Bun: use Node.js');
    const starting = startWorker({ config: testConfig(), logger });
    await expect(starting).rejects.toMatchObject({ name: 'ConfigError', message });
  } finally {
    Object.defineProperty(process, 'versions', { value: versions });
  }
});

test('a worker ends with exit code 0 at SIGTERM, ignores a second one, and logs whole lines without its key', async () => {
  // The proxy is ignored: nothing listens there.
  const worker = startProcess(settings({ grpc_proxy: 'http://127.0.0.1:9' }));
  await eventually('it takes follow-ups', () => worker.stdout().includes('"identity"'));
  worker.kill('SIGTERM');
  worker.kill('SIGTERM');
  const { exitCode, stderr, stdout } = await worker.ended;
  expect(exitCode).toBe(0);
  expect(stderr).toContain('Shutting down');
  expect(stderr + stdout).not.toContain(SECRET);
  for (const line of stderr.trim().split('\n')) expect(JSON.parse(line)).toHaveProperty('level');
});

test('a worker or command that cannot reach a remote server names the proxy variables it ignores; SIGINT ends the wait', async () => {
  const env = settings({ TEMPORAL_ADDRESS: 'far.invalid:7233', https_proxy: 'http://me:pw@127.0.0.1:9' });
  const ignored = 'proxy variables are ignored for Temporal (https_proxy)';
  const worker = startProcess(env);
  await eventually('the worker says so', () => worker.stderr().includes(ignored));
  expect(worker.stderr()).toContain('Waiting for Temporal');
  worker.kill('SIGINT');
  const { exitCode, stderr } = await worker.ended;
  expect(exitCode).toBe(0);
  const list = await runCli(['list'], { env });
  expect(list.stderr).toContain(ignored);
  expect(stderr + list.stderr).not.toContain('me:pw');
});

test(
  'a worker whose namespace is deleted is not ready from then on, and ends with exit code 1',
  { tags: 'long' },
  async () => {
    const connection = await Connection.connect({ address: inject('temporalAddress') });
    onTestFinished(() => connection.close());
    const namespace = await makeNamespace(connection);
    const worker = startProcess(settings({ TEMPORAL_NAMESPACE: namespace, FOLLOW_UP_SEND_TIMEOUT: '1s' }));
    await eventually('it is ready', () => worker.stdout().includes('\n'));
    const { statusUrl } = JSON.parse(worker.stdout()) as { statusUrl: string };
    await connection.operatorService.deleteNamespace({ namespace });
    await eventually('it is not ready', async () => (await fetch(`${statusUrl}/readyz`)).status === 503);
    const { exitCode, stderr } = await worker.ended;
    expect(exitCode, stderr).toBe(1);
  },
);
