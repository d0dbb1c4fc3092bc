import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import { Connection } from '@temporalio/client';
import { expect, inject, onTestFinished, test } from 'vitest';
import { createApiKeys } from '../../src/agent-jobs/index.js';
import { ServerClock } from '../../src/temporal/server-clock.js';
import { startWorker } from '../../src/worker.js';
import { createLogger } from '../../src/worker/logging.js';
import { watchReadiness } from '../../src/worker/readiness.js';
import { eventually } from '../support/eventually.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { logMemory, testConfig } from './support.js';

const target = { namespace: 'default', taskQueue: 'readiness', serverClock: new ServerClock() };
const keys = createApiKeys({ key: 'adm_key-for-tests' });

test('a worker that loses Temporal is not ready until it is back', async () => {
  const proxy = await startTcpProxy(inject('temporalAddress'));
  const connection = await Connection.connect({ address: proxy.address });
  onTestFinished(async () => {
    await connection.close();
    await proxy.close();
  });
  const readiness = watchReadiness(connection, keys, { ...target, checkEveryMs: 1 });
  expect(await readiness()).toEqual({ ready: true, reason: 'ready' });
  proxy.set({ kind: 'blackhole' });
  const away = expect.stringMatching(/^Temporal cannot be reached: /);
  await expect.poll(readiness).toEqual({ ready: false, reason: away });
  proxy.cut();
  proxy.set({ kind: 'pass' });
  await eventually('it is ready again', async () => (await readiness()).ready);
});

test('200 probes make one call to Temporal while its result is valid', async () => {
  let calls = 0;
  const count: Interceptor = (options, nextCall) => (calls++, new InterceptingCall(nextCall(options)));
  const connection = await Connection.connect({ address: inject('temporalAddress'), interceptors: [count] });
  onTestFinished(() => connection.close());
  const before = calls;
  const readiness = watchReadiness(connection, keys, { ...target, checkEveryMs: 3_600_000 });
  await Promise.all(Array.from({ length: 100 }, readiness));
  for (let probe = 0; probe < 100; probe++) await readiness();
  expect(calls - before).toBe(1);
});

test('a worker whose key file is missing says so on /readyz, keeps running, and is ready again when the file is back', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'readiness-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const path = join(directory, 'key');
  await writeFile(path, 'adm_key-for-tests', { mode: 0o644 });
  const log = logMemory();
  const logger = createLogger({ level: 'info', format: 'json' }, log);
  const config = testConfig({ AGENT_JOBS_API_KEY_FILE: path });
  const service = await startWorker({ config, logger });
  onTestFinished(() => service.shutdown());
  await service.ready;
  const probe = async (name: string) => {
    const response = await fetch(`${String(service.statusUrl)}/${name}`);
    return { status: response.status, text: await response.text() };
  };
  expect(await probe('readyz')).toEqual({ status: 200, text: 'ready\n' });
  await rename(path, `${path}.away`);
  const text = `a file of API keys cannot be used: ${path}: cannot be read (ENOENT)\n`;
  await expect.poll(() => probe('readyz')).toEqual({ status: 503, text });
  expect((await probe('healthz')).status).toBe(200);
  await rename(`${path}.away`, path);
  await eventually('it is ready again', async () => (await probe('readyz')).status === 200);
  expect(log.text()).toMatch(/"level":"warn".*AGENT_JOBS_API_KEY_FILE: every user of this machine can read/);
});
