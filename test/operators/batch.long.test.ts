import { describe, expect, test } from 'vitest';
import { deleteWorkflow, resetWorkflow, sendNonsense } from '../../chaos/buttons.js';
import { BatchNotFoundError } from '../../src/client/index.js';
import { measureHistories } from '../support/batch.js';
import { eventually } from '../support/eventually.js';
import { operatedBatches } from '../support/operated-batches.js';

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
      await expect(batch.retry()).rejects.toMatchObject({ name: 'NothingToRetryError' });
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
        (error: unknown) => error instanceof BatchNotFoundError,
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
