import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { expect, inject, onTestFinished, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { createLogger } from '../../src/logging.js';
import { startSimulator } from '../../src/simulator/index.js';
import { startWorker } from '../../src/worker.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';
import { logMemory, testConfig } from './support.js';

test('a worker moves to a new API key for Temporal, and stays with the one it has when a file is bad', async () => {
  const keyFile = join(mkdtempSync(join(tmpdir(), 'temporal-key-')), 'api-key');
  writeFileSync(keyFile, 'key-of-yesterday', { mode: 0o600 });
  const simulator = await startSimulator({ turn: { minMs: 300, maxMs: 600 } });
  onTestFinished(() => simulator.close());
  const connection = await Connection.connect({ address: inject('temporalAddress') });
  onTestFinished(() => connection.close());
  const log = logMemory();
  const config = testConfig({
    TEMPORAL_API_KEY_FILE: keyFile,
    TEMPORAL_TLS: 'false',
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
  });
  const worker = await startWorker({ config, logger: createLogger({ level: 'info', format: 'json' }, log) });
  onTestFinished(() => worker.shutdown());
  await worker.ready;
  const followUps = new FollowUpClient({ client: new Client({ connection }), taskQueue: config.taskQueue });
  const sends = async (jobId: string) => {
    simulator.addJob({ projectId: config.taskQueue, jobId });
    return followUps.run({ projectId: config.taskQueue, jobId, prompt: 'Add a test.', ...FAST });
  };

  writeFileSync(keyFile, 'two keys');
  await eventually('the worker names the bad file', () => log.text().includes('TEMPORAL_API_KEY_FILE: the file must'));
  expect(await sends('with-the-old-key')).toMatchObject({ status: 'completed' });
  expect(log.text()).not.toContain('new credentials are in use');

  writeFileSync(keyFile, 'key-of-today');
  await eventually('the worker has it', () => log.text().includes("Temporal's new credentials are in use"));
  expect(await sends('with-the-new-key')).toMatchObject({ status: 'completed' });
  expect((await fetch(`${worker.statusUrl}/readyz`)).status).toBe(200);
  expect(log.text()).not.toMatch(/two keys|key-of-/);
  expect(log.text().match(/cannot be used/g)).toHaveLength(1);
});
