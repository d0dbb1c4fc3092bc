import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { closeSync, existsSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterEach, describe, expect, inject, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { startSimulator } from '../../src/simulator/index.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';
import { makeNamespace } from './support.js';

const command = join(import.meta.dirname, '..', '..', 'bin', 'follow-up.js');
const SECRET = 'key-live-0123456789';

interface WorkerProcess {
  child: ChildProcess;
  stdout: () => string;
  stderr: () => string;
  exited: Promise<number | null>;
}

describe('the worker process', () => {
  const running: ChildProcess[] = [];
  afterEach(() => {
    for (const child of running.splice(0)) child.kill('SIGKILL');
  });

  function startProcess(env: Record<string, string>): WorkerProcess {
    const { PATH = '', HOME = '' } = process.env;
    const child = spawn(process.execPath, [command, 'worker', '--json'], { env: { PATH, HOME, ...env } });
    running.push(child);
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    const exited = new Promise<number | null>((resolve) => child.once('close', resolve));
    return { child, stdout: () => stdout, stderr: () => stderr, exited };
  }

  test.skipIf(!existsSync('/dev/full'))(
    'takes follow-ups although the disk of its log is full and nobody reads its output, and ends cleanly',
    async () => {
      const simulator = await startSimulator({ apiKey: SECRET });
      const full = openSync('/dev/full', 'w');
      const taskQueue = `process-test-${randomUUID()}`;
      const { PATH = '', HOME = '' } = process.env;
      const address = inject('temporalAddress');
      const connection = await Connection.connect({ address });
      try {
        const env = {
          ...{ PATH, HOME },
          TEMPORAL_ADDRESS: address,
          AGENT_JOBS_BASE_URL: simulator.baseUrl,
          AGENT_JOBS_API_KEY: SECRET,
          FOLLOW_UP_TASK_QUEUE: taskQueue,
          FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
          FOLLOW_UP_LOG_LEVEL: 'debug',
        };
        const child = spawn(process.execPath, [command, 'worker', '--json'], { env, stdio: ['ignore', full, full] });
        running.push(child);
        const exited = new Promise<number | null>((resolve) => child.once('close', resolve));
        await eventually('it polls', async () => {
          const { pollers } = await connection.workflowService.describeTaskQueue({
            namespace: 'default',
            taskQueue: { name: taskQueue },
          });
          if (child.exitCode !== null) throw new Error(`it ended with exit code ${child.exitCode}`);
          return pollers.length > 0;
        });
        simulator.addJob({ projectId: taskQueue, jobId: 'job' });
        const followUps = new FollowUpClient({ client: new Client({ connection }), taskQueue });
        const { status } = await followUps.run({ projectId: taskQueue, jobId: 'job', prompt: 'Go on.', ...FAST });
        expect(status).toBe('completed');
        child.kill('SIGTERM');
        expect(await exited).toBe(0);
      } finally {
        closeSync(full);
        await connection.close();
        await simulator.close();
      }
    },
  );

  test('ends with exit code 2 and names every bad setting, without showing a key', async () => {
    const worker = startProcess({ AGENT_JOBS_API_KEY: `${SECRET} x`, FOLLOW_UP_BUDGET_LIMIT: 'none' });
    expect(await worker.exited).toBe(2);
    for (const name of ['AGENT_JOBS_BASE_URL', 'AGENT_JOBS_API_KEY', 'FOLLOW_UP_BUDGET_LIMIT']) {
      expect(worker.stderr()).toContain(name);
    }
    expect(worker.stderr() + worker.stdout()).not.toContain(SECRET);
  });

  test('ends with exit code 2 on Bun, where it would poll nothing', async () => {
    const onBun = "Object.defineProperty(process,'versions',{value:{...process.versions,bun:'1.3.0'}})";
    const worker = startProcess({
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(onBun)}`,
      TEMPORAL_ADDRESS: inject('temporalAddress'),
      AGENT_JOBS_BASE_URL: 'http://127.0.0.1:9',
      AGENT_JOBS_API_KEY: SECRET,
      FOLLOW_UP_STATUS_ADDRESS: 'off',
    });
    expect(await worker.exited).toBe(2);
    expect(worker.stderr()).toContain('Bun polls no task queue: run the worker with Node.js');
  });

  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('ends with exit code 0 at %s', async (signal) => {
    const simulator = await startSimulator({ apiKey: SECRET });
    try {
      const worker = startProcess({
        TEMPORAL_ADDRESS: inject('temporalAddress'),
        AGENT_JOBS_BASE_URL: simulator.baseUrl,
        AGENT_JOBS_API_KEY: SECRET,
        // Ignored: nothing listens there.
        grpc_proxy: 'http://127.0.0.1:9',
        FOLLOW_UP_TASK_QUEUE: `process-test-${randomUUID()}`,
        FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
        FOLLOW_UP_LOG_LEVEL: 'debug',
      });
      await eventually('it takes follow-ups', () => worker.stdout().includes('"identity"'));
      worker.child.kill(signal);
      worker.child.kill(signal);
      expect(await worker.exited).toBe(0);
      expect(worker.stderr()).toContain('Shutting down');
      expect(worker.stderr() + worker.stdout()).not.toContain(SECRET);
      for (const line of worker.stderr().trim().split('\n')) expect(JSON.parse(line)).toHaveProperty('level');
    } finally {
      await simulator.close();
    }
  });

  test('ends by itself if a search attribute has another type, and names it', async () => {
    const address = inject('temporalAddress');
    const connection = await Connection.connect({ address });
    const integer = 3;
    try {
      const namespace = await makeNamespace(connection);
      const searchAttributes = Object.fromEntries([['FollowUpState', integer]]);
      await connection.operatorService.addSearchAttributes({ namespace, searchAttributes });
      const worker = startProcess({
        TEMPORAL_ADDRESS: address,
        TEMPORAL_NAMESPACE: namespace,
        AGENT_JOBS_BASE_URL: 'http://127.0.0.1:9',
        AGENT_JOBS_API_KEY: SECRET,
        FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
      });
      expect(await worker.exited).not.toBe(0);
      expect(worker.stderr()).toContain('FollowUpState with another type than Keyword');
    } finally {
      await connection.close();
    }
  });

  test('ends at a signal while it waits for Temporal', async () => {
    const worker = startProcess({
      TEMPORAL_ADDRESS: '127.0.0.1:9',
      AGENT_JOBS_BASE_URL: 'http://127.0.0.1:9',
      AGENT_JOBS_API_KEY: SECRET,
      FOLLOW_UP_STATUS_ADDRESS: 'off',
    });
    await eventually('it waits', () => worker.stderr().includes('Waiting for Temporal'));
    worker.child.kill('SIGTERM');
    expect(await worker.exited).toBe(0);
  });

  test('and a command name the proxy variables that they ignore if a remote server is away', async () => {
    const { PATH = '', HOME = '' } = process.env;
    const env = { TEMPORAL_ADDRESS: 'far.invalid:7233', https_proxy: 'http://me:pw@127.0.0.1:9' };
    const ignored = 'proxy variables are ignored for Temporal (https_proxy)';
    const worker = startProcess({
      ...env,
      AGENT_JOBS_BASE_URL: 'http://127.0.0.1:9',
      AGENT_JOBS_API_KEY: SECRET,
      FOLLOW_UP_STATUS_ADDRESS: 'off',
    });
    await eventually('the worker says so', () => worker.stderr().includes(ignored));
    const list = spawn(process.execPath, [command, 'list'], { env: { PATH, HOME, ...env } });
    running.push(list);
    let stderr = '';
    list.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    await eventually('the command says so', () => stderr.includes(ignored));
    expect(stderr + worker.stderr()).not.toContain('me:pw');
  });
});
