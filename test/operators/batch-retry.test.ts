import { describe, expect, test } from 'vitest';
import { deleteWorkflow } from '../support/buttons.js';
import { type BatchHandle, type StartedBatch, WorkerUnavailableError } from '../../src/client/index.js';
import { eventually } from '../support/eventually.js';
import { operatedBatches } from '../support/operated-batches.js';
import { FAST } from '../support/stack.js';

const batches = operatedBatches();
const { sentTo, partOf, workflowOf, startBatch, threeHaveEnded, letAllGo, allArrive } = batches;

/** A batch of eight items of which three are delivered, and the others are cancelled before their send. */
async function cancelledAfterThree(): Promise<BatchHandle> {
  const batch = await startBatch({ held: true });
  await threeHaveEnded(batch);
  await batch.cancel();
  expect(await batch.result()).toMatchObject({ completed: 3, errors: 5, unknown: 0 });
  await letAllGo(batch);
  return batch;
}

/** A plan asks many queries, and a busy worker may leave one of them without an answer within its 10 s. */
async function refusalOfRetry(batch: BatchHandle): Promise<unknown> {
  return eventually('the workers answer', async () => {
    const refusal: unknown = await batch.retry().catch((error: unknown) => error);
    return refusal instanceof WorkerUnavailableError ? undefined : refusal;
  });
}

describe.concurrent('retries of a batch', () => {
  test('know what other retries of it did, so that nothing is delivered twice', async () => {
    const batch = await cancelledAfterThree();
    const first = await batch.retry({ only: 'failed' });
    expect(first.batchId).toBe(`${batch.batchId}-retry-1`);
    expect(await refusalOfRetry(batch)).toMatchObject({ type: 'NothingToRetry' });
    expect(await first.result()).toMatchObject({ total: 5, completed: 5 });
    expect(await refusalOfRetry(batch)).toMatchObject({ type: 'NothingToRetry' });
    expect(await refusalOfRetry(first)).toMatchObject({ type: 'NothingToRetry' });
    expect(sentTo(batch.batchId)).toHaveLength(8);
  });

  test('that are planned at the same time are one batch', { tags: 'long' }, async () => {
    const batch = await cancelledAfterThree();
    const plans = await Promise.all([batch.planRetry(), batch.planRetry({ only: 'failed' })]);
    const started = await Promise.all(plans.map((plan) => batch.retry({ plan: plan })));
    expect(started.map((retry: StartedBatch) => retry.batchId)).toEqual(Array(2).fill(`${batch.batchId}-retry-1`));
    expect(started.filter(({ alreadyStarted }) => alreadyStarted)).toHaveLength(1);
    expect(await started[0]!.result()).toMatchObject({ total: 5, completed: 5 });
    expect(sentTo(batch.batchId)).toHaveLength(8);
  });

  test('send what an earlier retry did not, with the items of the batch itself', { tags: 'long' }, async () => {
    const batch = await cancelledAfterThree();
    await batches.stack.followUps.budget(batch.batchId).pause({ note: 'by the test' });
    const first = await batch.retry();
    await eventually('its follow-ups wait', async () => (await first.status()).open === 5);
    await first.cancel();
    expect(await first.result()).toMatchObject({ errorsByType: { Cancelled: 5 } });
    await batches.stack.followUps.budget(batch.batchId).resume();
    const second = await first.retry();
    expect(second.batchId).toBe(`${batch.batchId}-retry-2`);
    expect((await second.describe()).retry).toEqual((await first.describe()).retry);
    expect(await second.result()).toMatchObject({ total: 5, completed: 5 });
    expect(sentTo(batch.batchId)).toHaveLength(8);
  });

  test('leave out a follow-up that was started again by hand', { tags: 'long' }, async () => {
    const batch = await cancelledAfterThree();
    const cancelled = (await batch.result()).items.find(({ error }) => error)!;
    const { client } = batches.stack;
    await eventually('a reset run completes', async () => {
      const { namespace } = client.options;
      const workflowExecution = { workflowId: cancelled.workflowId };
      await client.workflowService.resetWorkflowExecution({
        namespace,
        workflowExecution,
        workflowTaskFinishEventId: { low: 4, high: 0, unsigned: false } as never,
        requestId: batch.batchId,
        resetReapplyExcludeTypes: [4] as never,
      });
      return true;
    });
    await workflowOf(cancelled.workflowId).result();
    const retry = await batch.retry();
    expect(await retry.result()).toMatchObject({ total: 4, completed: 4 });
    expect(sentTo(batch.batchId)).toHaveLength(8);
  });
});

describe.concurrent('an id that is used again', () => {
  test(
    'while a part of the old batch runs sends no item whose follow-up was started, and says so',
    { tags: 'long' },
    async () => {
      const old = await startBatch({ held: true });
      const { batchId } = old;
      await threeHaveEnded(old);
      const oldPart = await partOf(old);
      await workflowOf(old.workflowId).terminate('by hand');
      await deleteWorkflow(batches.stack.client, old.workflowId);
      await eventually('it is gone', () =>
        old.describe().then(
          () => false,
          () => true,
        ),
      );
      const items = Array.from({ length: 8 }, (_, index) => ({
        projectId: batchId,
        jobId: `job-${index}`,
        prompt: `another message ${index}`,
        ...FAST,
      }));
      const batch = await batches.stack.followUps.startBatch({ id: batchId, items });
      const result = await batch.result();
      expect(result).toMatchObject({ total: 8, completed: 0, errors: 8, unknown: 0, errorsByType: { NotStarted: 8 } });
      expect(result.items.every(({ error }) => error?.delivered === 'no')).toBe(true);
      await letAllGo(batch);
      await allArrive(old);
      await workflowOf(oldPart).result();
      expect(sentTo(batchId).map(({ prompt }) => prompt)).not.toContainEqual(expect.stringContaining('another'));
      const retry = await batch.retry();
      expect(await retry.result()).toMatchObject({ total: 8, completed: 8 });
      expect(sentTo(batchId)).toHaveLength(16);
    },
  );
});
