import { afterAll, beforeAll, expect, test } from 'vitest';
import { addItemsUpdate, followUpBatchWorkflowId, sealUpdate } from '../../src/contract/index.js';
import { startDevServer, type DevServer } from '../../src/embedded/dev-server.js';
import { makeItems, measureHistories, startBatch } from '../support/batch.js';
import { record } from '../support/histories.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let server: DevServer;
let stack: Stack;
beforeAll(async () => {
  server = await startDevServer({
    env: process.env,
    // Batches and their parts continue as new every few steps.
    extraArgs: ['--dynamic-config-value', 'limit.historyCount.suggestContinueAsNew=40'],
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

test('a batch that continues as new every few steps, like its parts, loses nothing', async () => {
  const batchId = 'continued';
  const items = makeItems(stack, ['a', 'b', 'c'], 12, FAST);
  items.push({ projectId: 'a', jobId: 'unknown', prompt: 'x', ...FAST });
  const batch = await startBatch(stack, batchId, { items: items.slice(0, 24), open: true, maxOpen: 10 });
  const add = (offset: number) => batch.handle.executeUpdate(addItemsUpdate, { args: [items.slice(offset), offset] });
  for await (const { index } of stack.followUps.batch(batchId).items({ intervalMs: 200 })) if (index > 5) break;
  expect(await add(24)).toEqual({ total: 37 });
  expect(await add(24)).toEqual({ total: 37 });
  await batch.handle.executeUpdate<object, [number]>(sealUpdate.name, { args: [37] });
  const told: number[] = [];
  for await (const { index } of stack.followUps.batch(batchId).items({ intervalMs: 200 })) told.push(index);
  const result = await batch.result();
  expect(result).toMatchObject({ total: 37, completed: 36, errors: 1, errorsByType: { JobNotFound: 1 } });
  expect(told.sort((a, b) => a - b)).toEqual(items.map((_item, index) => index));
  expect(stack.simulator.ledger.filter(({ accepted }) => accepted)).toHaveLength(36);
  const whole = await measureHistories(stack, followUpBatchWorkflowId({ batchId }));
  const part = await measureHistories(stack, followUpBatchWorkflowId({ batchId, part: 0 }));
  expect(whole).toMatchObject({ failedTasks: 0 });
  expect(part).toMatchObject({ failedTasks: 0 });
  expect(whole.runs).toBeGreaterThan(1);
  expect(part.runs).toBeGreaterThan(2);
  await recordRuns('a batch continues as new', followUpBatchWorkflowId({ batchId }));
  await recordRuns('a part of a batch continues as new', followUpBatchWorkflowId({ batchId, part: 0 }));
  await record(stack.client, 'a follow-up of a batch tells it its end', 'follow-up/a/unknown/continued:36');
});

test('a batch that is cancelled while it runs ends every item', async () => {
  const batchId = 'cancelled';
  const items = makeItems(stack, ['d'], 12, FAST);
  const batch = await startBatch(stack, batchId, { items, maxOpen: 5 });
  for await (const _first of stack.followUps.batch(batchId).items({ intervalMs: 100 })) break;
  await batch.handle.cancel();
  const result = await batch.result();
  expect(result).toMatchObject({ total: 12, cancelled: true });
  expect(result.completed + result.errors).toBe(12);
  await recordRuns('a batch is cancelled', followUpBatchWorkflowId({ batchId }));
  await recordRuns('a part of a batch is cancelled', followUpBatchWorkflowId({ batchId, part: 0 }));
});
