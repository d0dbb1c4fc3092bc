import { randomUUID } from 'node:crypto';
import { Connection } from '@temporalio/client';
import { expect, inject, onTestFinished, test } from 'vitest';
import { startCli } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';
import { makeNamespace } from './support.js';

test('a worker whose namespace is deleted is not ready from its failure on, and ends with exit code 1', async () => {
  const address = inject('temporalAddress');
  const connection = await Connection.connect({ address });
  onTestFinished(() => connection.close());
  const namespace = await makeNamespace(connection);
  const worker = startCli(['worker', '--json'], {
    env: {
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      AGENT_JOBS_BASE_URL: 'http://127.0.0.1:9',
      AGENT_JOBS_API_KEY: `key-${randomUUID()}`,
      FOLLOW_UP_SEND_TIMEOUT: '1s',
      FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
      FOLLOW_UP_LOG_LEVEL: 'debug',
    },
  });
  onTestFinished(() => worker.kill('SIGKILL'));
  const line = await eventually('it is ready', () => (worker.stdout().includes('\n') ? worker.stdout() : undefined));
  const { statusUrl } = JSON.parse(line) as { statusUrl: string };
  await connection.operatorService.deleteNamespace({ namespace });
  await eventually('it is not ready', async () => (await fetch(`${statusUrl}/readyz`)).status === 503);
  const { exitCode, stderr } = await worker.ended;
  expect(exitCode, stderr).toBe(1);
});
