import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { contradictions } from '../../chaos/contradictions.js';
import { eventually } from '../support/eventually.js';
import { bundleVersion } from '../support/workflow-bundles.js';
import { installQuietRuntime } from '../support/workflow-rig.js';

let connection: Connection;
let native: NativeConnection;
beforeAll(async () => {
  const address = inject('temporalAddress');
  await installQuietRuntime();
  connection = await Connection.connect({ address });
  native = await NativeConnection.connect({ address });
});
afterAll(async () => {
  await native.close();
  await connection.close();
});

test('a workflow that contradicts its own history is found, and no other is', async () => {
  const taskQueue = `contradictions-${randomUUID()}`;
  const client = new Client({ connection });
  const withVersion = async <T>(version: 1 | 4, use: () => Promise<T>): Promise<T> => {
    const worker = await Worker.create({ connection: native, taskQueue, workflowBundle: await bundleVersion(version) });
    return worker.runUntil(use());
  };
  const handle = await withVersion(4, async () => {
    const started = await client.workflow.start('changing', { taskQueue, workflowId: `changing-${randomUUID()}` });
    await started.signal('goOn');
    await eventually('its two timers have fired', async () => {
      const { events } = await started.fetchHistory();
      return events?.filter((event) => event.timerFiredEventAttributes).length === 2;
    });
    return started;
  });
  await eventually('it is listed', async () => {
    for await (const _listed of client.workflow.list({ query: `TaskQueue = '${taskQueue}'` })) return true;
    return false;
  });
  expect(await contradictions(client, taskQueue)).toEqual([]);
  // The first version knows only one timer.
  await withVersion(1, async () => {
    await handle.signal('goOn');
    await eventually('a task has failed', async () => (await contradictions(client, taskQueue)).length > 0);
  });
  expect(await contradictions(client, taskQueue)).toMatchObject([
    { kind: 'contradicted', subject: handle.workflowId, detail: expect.stringContaining('Nondeterminism') as string },
  ]);
  await handle.terminate();
});
