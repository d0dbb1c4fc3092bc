import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { z } from 'zod';
import '../../src/workflows/shared-modules.js';
import { bundleTestWorkflows } from '../support/workflow-bundles.js';
import { installQuietRuntime } from '../support/workflow-rig.js';
import { parseEverything } from './support/parse-everything.js';

const taskQueue = `shared-modules-${randomUUID()}`;

let client: Client;
const closers: (() => Promise<void>)[] = [];

beforeAll(async () => {
  const address = inject('temporalAddress');
  await installQuietRuntime();
  const workflowsPath = join(import.meta.dirname, 'support', 'shared-modules-workflows.ts');
  const workflowBundle = await bundleTestWorkflows(workflowsPath);
  const nativeConnection = await NativeConnection.connect({ address });
  closers.push(() => nativeConnection.close());
  const worker = await Worker.create({ connection: nativeConnection, taskQueue, workflowBundle });
  const running = worker.run();
  closers.push(() => (worker.shutdown(), running));
  const connection = await Connection.connect({ address });
  closers.push(() => connection.close());
  client = new Client({ connection });
});
afterAll(async () => {
  for (const close of closers.reverse()) await close();
});

/** Runs a workflow. A failed task is retried for ever, so `workflowRunTimeout` ends it. */
function execute(workflowType: string, ...args: unknown[]): Promise<unknown> {
  const options = { taskQueue, workflowId: randomUUID(), workflowRunTimeout: '20s', args } as const;
  return client.workflow.execute(workflowType, options);
}

/** A value as it comes out of a history. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test('a schema that workflows share gives the same results in each of them and outside', async () => {
  const expected = plain(parseEverything());
  expect(Object.keys(expected as object)).toEqual(expect.arrayContaining(['followUpInputSchema', 'budgetEventSchema']));
  const [first, second] = await Promise.all([execute('parseTwice'), execute('parseTwice')]);
  expect(first).toEqual([expected, expected]);
  expect(second).toEqual([expected, expected]);
});

test('a workflow can make schemas of its own from shared ones', async () => {
  expect(await execute('parseWithOwnSchema', { id: 'j', wait: '5s' })).toEqual({
    ok: true,
    value: { id: 'j', wait: 5_000 },
  });
  expect(await execute('parseWithOwnSchema', { id: '..', wait: '2h' })).toMatchObject({
    ok: false,
    issues: [{ field: 'id' }, { field: 'wait', message: 'must be from 1s to 1h (given "2h")' }],
  });
});

test('a workflow finds nothing that another has left behind', async () => {
  expect([await execute('leaveTraces'), await execute('leaveTraces')]).toEqual([0, 0]);
});

test('every schema that a shared module exports is frozen, so that workflows can share it', async () => {
  const strange: string[] = [];
  for (const folder of ['contract', 'budget']) {
    const directory = join(import.meta.dirname, '..', '..', 'src', folder);
    for (const file of readdirSync(directory)) {
      const module = (await import(join(directory, file))) as Record<string, unknown>;
      for (const [name, value] of Object.entries(module)) {
        const isSettled = value instanceof z.ZodType && Object.isFrozen(value);
        if (holdsSchema(value) && !isSettled) strange.push(`${folder}/${file}: ${name}`);
      }
    }
  }
  expect(strange).toEqual([]);
});

/** Whether a value is or holds a schema. The SDK would deeply freeze lists and plain objects. */
function holdsSchema(value: unknown): boolean {
  if (value instanceof z.ZodType) return true;
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsSchema);
}
