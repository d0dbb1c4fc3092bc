import { afterAll, beforeAll, expect, test } from 'vitest';
import { addItemsUpdate, sealUpdate } from '../../src/contract/index.js';
import { type DevServer, startDevServer } from '../../src/dev-server/index.js';
import { GrpcStatus, grpcStatusOf } from '../../src/temporal/grpc.js';
import { makeItems, measureHistories, startBatch } from '../support/batch.js';
import { eventually } from '../support/eventually.js';
import { record } from '../support/histories.js';
import { FAST, type Stack, startStack } from '../support/stack.js';

let server: DevServer;
let stack: Stack;
beforeAll(async () => {
  server = await startDevServer({
    env: process.env,
    // Batches continue as new every few steps.
    args: ['--dynamic-config-value', 'limit.historyCount.suggestContinueAsNew=40'],
  });
  stack = await startStack({ address: server.address, simulator: { turn: { minMs: 1_000, maxMs: 3_000 } } });
});
afterAll(async () => {
  await stack.stop();
  await server.stop();
});

async function recordRuns(name: string, workflowId: string): Promise<void> {
  const runs: { runId: string; startTime: Date }[] = [];
  for await (const run of stack.client.workflow.list({ query: `WorkflowId = '${workflowId}'` })) runs.push(run);
  runs.sort((a, b) => a.startTime.getTime() - b.startTime.getTime());
  const last = runs.length - 1;
  for (const index of new Set([0, 1, last])) {
    await record(stack.client, `${name}, run ${index === last ? 'last' : index + 1}`, workflowId, runs[index]?.runId);
  }
}

test('a batch that continues as new every few steps loses nothing, and its parts never continue as new', async () => {
  const batchId = 'continued';
  const items = makeItems(stack, ['a', 'b', 'c'], 12, FAST);
  items.push({ projectId: 'a', jobId: 'unknown', prompt: 'x', ...FAST });
  const batch = await startBatch(stack, batchId, { items: items.slice(0, 24), open: true, maxOpen: 10 });
  // An update that comes just as a run continues as new is refused, and repeated.
  const add = (offset: number) =>
    eventually('it is taken', () =>
      batch.handle.executeUpdate(addItemsUpdate, { args: [items.slice(offset), offset] }).catch((error: unknown) => {
        if (grpcStatusOf(error) !== GrpcStatus.FAILED_PRECONDITION) throw error;
      }),
    );
  await eventually('some have ended', async () => (await batch.status()).completed > 5);
  expect(await add(24)).toEqual({ total: 37 });
  expect(await add(24)).toEqual({ total: 37 });
  await batch.handle.executeUpdate<object, [number]>(sealUpdate.name, { args: [37] });
  const result = await batch.result();
  expect(result).toMatchObject({ total: 37, completed: 36, errors: 1, errorsByType: { JobNotFound: 1 } });
  expect(stack.simulator.ledger.filter(({ accepted }) => accepted)).toHaveLength(36);
  const [partId = ''] = await stack.followUps.batch(batchId).parts();
  const whole = await measureHistories(stack, batch.handle.workflowId);
  const part = await measureHistories(stack, partId);
  expect(whole).toMatchObject({ failedTasks: 0 });
  expect(part).toMatchObject({ failedTasks: 0, runs: 1 });
  expect(whole.runs).toBeGreaterThan(1);
  await recordRuns('a batch continues as new', batch.handle.workflowId);
});

test('a batch that is cancelled while it runs ends every item', async () => {
  const batchId = 'cancelled';
  const items = makeItems(stack, ['d'], 12, FAST);
  const batch = await startBatch(stack, batchId, { items, maxOpen: 5 });
  await eventually('some have ended', async () => (await batch.status()).completed > 0);
  const [part = ''] = await stack.followUps.batch(batchId).parts();
  await batch.handle.cancel();
  const result = await batch.result();
  expect(result).toMatchObject({ total: 12, cancelled: true });
  expect(result.completed + result.errors).toBe(12);
  await recordRuns('a batch is cancelled', batch.handle.workflowId);
  await record(stack.client, 'a part of a batch is cancelled', part);
});
