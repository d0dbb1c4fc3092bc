import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { deleteWorkflow, resetWorkflow, sendNonsense } from '../support/buttons.js';
import { RefusedError } from '../../src/client/index.js';
import { measureHistories } from '../support/batch.js';
import { eventually } from '../support/eventually.js';
import { operatedBatches } from '../support/operated-batches.js';
import { FAST } from '../support/stack.js';

const batches = operatedBatches();
const { sentTo, partOf, workflowOf, startBatch, threeHaveEnded, endsWell, letAllGo, allArrive } = batches;

describe.concurrent('a batch that has ended and is reset', () => {
  test.each(['first', 'last'] as const)(
    'to its %s task looks up how its items ended, and has nothing to retry',
    async (point) => {
      const batch = await startBatch();
      const before = await endsWell(batch);
      await resetWorkflow(batches.stack.client, batch.workflowId, point);
      expect(await endsWell(batch)).toEqual(before);
      await expect(batch.retry()).rejects.toMatchObject({ type: 'NothingToRetry' });
      expect(sentTo(batch.batchId)).toHaveLength(8);
    },
  );

  test('after its part was deleted looks up the results of its follow-ups', async () => {
    const batch = await startBatch();
    await endsWell(batch);
    const part = await partOf(batch);
    await deleteWorkflow(batches.stack.client, part);
    await eventually('it is gone', () =>
      workflowOf(part)
        .describe()
        .then(
          () => false,
          () => true,
        ),
    );
    await resetWorkflow(batches.stack.client, batch.workflowId, 'first');
    await endsWell(batch);
  });
});

describe.concurrent('a running batch', () => {
  test.each(['first', 'last'] as const)('that is reset to its %s task continues, and knows all ends', async (point) => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await resetWorkflow(batches.stack.client, batch.workflowId, point);
    await eventually('it knows them again', async () => (await batch.status()).completed === 3);
    await letAllGo(batch);
    await endsWell(batch);
    for (const workflowId of [batch.workflowId, await partOf(batch)]) {
      expect(await measureHistories(batches.stack, workflowId)).toMatchObject({ failedTasks: 0 });
    }
  });

  test('that is reset after it was terminated continues with its parts', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await workflowOf(batch.workflowId).terminate('by hand');
    await resetWorkflow(batches.stack.client, batch.workflowId, 'last');
    await letAllGo(batch);
    await endsWell(batch);
  });

  test('that is deleted is not found any more, and its follow-ups continue', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await deleteWorkflow(batches.stack.client, batch.workflowId);
    await eventually('it is not found', () =>
      batch.status().then(
        () => false,
        (error: unknown) => RefusedError.is(error, 'BatchNotFound'),
      ),
    );
    await letAllGo(batch);
    await allArrive(batch);
  });

  test('skips nonsense', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await sendNonsense(batches.stack.client, batch.workflowId, ['partReport']);
    await sendNonsense(batches.stack.client, await partOf(batch), ['partOrder']);
    await letAllGo(batch);
    await endsWell(batch);
    for (const workflowId of [batch.workflowId, await partOf(batch)]) {
      expect(await measureHistories(batches.stack, workflowId)).toMatchObject({ failedTasks: 0 });
    }
  });
});

describe.concurrent('a part of a batch', () => {
  test.each(['first', 'last'] as const)('that is reset to its %s task continues', async (point) => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await resetWorkflow(batches.stack.client, await partOf(batch), point);
    await letAllGo(batch);
    await endsWell(batch);
    await resetWorkflow(batches.stack.client, await partOf(batch), point);
    await workflowOf(await partOf(batch)).result();
    expect(sentTo(batch.batchId)).toHaveLength(8);
  });

  test('that is deleted leaves what it had reported, and a retry says that the items are lost', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await deleteWorkflow(batches.stack.client, await partOf(batch));
    const result = await batch.result();
    expect(result).toMatchObject({ total: 8, completed: 3, errors: 5, unknown: 5, errorsByType: { Terminated: 5 } });
    await letAllGo(batch);
    await allArrive(batch);
    await expect(batch.retry()).rejects.toMatchObject({
      message: expect.stringContaining('Temporal no longer keeps it'),
    });
    expect(sentTo(batch.batchId)).toHaveLength(8);
  });
});

test('a batch that is cancelled while its follow-ups start sends nothing more', async () => {
  const { stack, sentTo } = batches;
  const id = `op-${randomUUID().slice(0, 8)}`;
  await stack.followUps.budget(id).setLimit({ limit: 1, window: '1h' });
  const jobIds = Array.from({ length: 200 }, (_, index) => `job-${index}`);
  const input = { id, projectId: id, prompt: 'x', jobIds, maxOpen: 200, defaults: FAST };
  const batch = await stack.followUps.startBatch(input);
  await eventually('they start', async () => (await batch.status().catch(() => undefined))?.open === 200);
  await batch.cancel();
  const result = await batch.result();
  expect(result).toMatchObject({ total: 200, cancelled: true });
  expect(result.completed + result.errors).toBe(200);
  await stack.followUps.budget(id).setLimit({ limit: 100 });
  expect(sentTo(id).length).toBeLessThanOrEqual(1);
  const query = `FollowUpBatchId = '${id}' AND ExecutionStatus = 'Running'`;
  await eventually('none runs', async () => (await stack.client.workflow.count(query)).count === 0);
});

test('a prompt of 100 KB goes to 60 jobs', async () => {
  const { stack, sentTo } = batches;
  const id = `op-${randomUUID().slice(0, 8)}`;
  const jobIds = Array.from({ length: 60 }, (_, index) => `job-${index}`);
  const batch = await stack.followUps.startBatch({
    id,
    projectId: id,
    prompt: 'x'.repeat(100_000),
    jobIds,
    defaults: FAST,
  });
  expect(await batch.result()).toMatchObject({ total: 60, completed: 60 });
  expect(sentTo(id)).toHaveLength(60);
}, 300_000);

test('a retry of a batch that was terminated while it started says how many items are in no part', async () => {
  const { followUps } = batches.stack;
  const id = `op-${randomUUID().slice(0, 8)}`;
  await followUps.budget(id).pause();
  const jobIds = Array.from({ length: 15_000 }, (_, index) => `j${index}`);
  const batch = await followUps.startBatch({ id, projectId: id, prompt: 'x', jobIds });
  await eventually('it has begun', async () => (await batch.parts().catch(() => [])).length > 0);
  await workflowOf(batch.workflowId).terminate();
  let listed = 0;
  for await (const item of batch.list()) listed += Number(item.index >= 0);
  const { input, open, neverStarted } = await batch.planRetry({ only: 'failed' });
  expect(neverStarted).toBeGreaterThan(0);
  expect(neverStarted).toBe(15_000 - listed);
  expect('items' in input ? input.items.length : 0).toBe(listed - open);
  for await (const { workflowId } of followUps.list({ batch: id })) await workflowOf(workflowId).cancel();
});
