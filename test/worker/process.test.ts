import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Connection } from '@temporalio/client';
import { afterEach, describe, expect, inject, test } from 'vitest';
import { startSimulator } from '../../src/simulator/index.js';
import { eventually } from '../support/eventually.js';
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
});
