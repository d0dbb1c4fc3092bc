import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { resetWorkflow } from '../support/buttons.js';
import type { BatchHandle, StartBatchInput } from '../../src/client/index.js';
import { makeItems } from '../support/batch.js';
import { eventually } from '../support/eventually.js';
import { operatedBatches } from '../support/operated-batches.js';
import { FAST } from '../support/stack.js';

const batches = operatedBatches();
const { sentTo, partOf, workflowOf, endsWell, detailsOf } = batches;

/** A batch of eight items with the same id as its project. */
function startBatch(brake: Pick<StartBatchInput, 'canary' | 'maxFailures' | 'maxOpen'>): Promise<BatchHandle> {
  const id = `brake-${randomUUID().slice(0, 8)}`;
  return batches.stack.followUps.startBatch({ id, items: makeItems(batches.stack, [id], 8, FAST), ...brake });
}

const isHeld = (batch: BatchHandle) => eventually('it is held', async () => (await batch.status()).hold);

describe.concurrent('a batch with a canary', () => {
  test('sends exactly that many messages until it is told to continue, whatever is reset or terminated', async () => {
    const batch = await startBatch({ canary: 2 });
    const { at } = await isHeld(batch);
    const held = { name: 'canary', reason: 'the canary has ended: 2 of 8 items' };
    expect(await batch.status()).toMatchObject({ hold: { ...held, at }, completed: 2, open: 0, waitingToStart: 6 });
    expect(await detailsOf(batch.workflowId)).toContain(`follow-up batch continue ${batch.batchId}`);
    const { client } = batches.stack;
    const query = `FollowUpBatchId = '${batch.batchId}' AND FollowUpState = 'held'`;
    await eventually('a list query finds it', async () => (await client.workflow.count(query)).count === 1);
    await resetWorkflow(client, batch.workflowId, 'first');
    await isHeld(batch);
    await resetWorkflow(client, await partOf(batch), 'first');
    await workflowOf(await partOf(batch)).terminate('by hand');
    await resetWorkflow(client, batch.workflowId, 'last');
    expect(await isHeld(batch)).toMatchObject(held);
    expect(sentTo(batch.batchId)).toHaveLength(2);
    expect(await batch.continue()).toMatchObject(held);
    await endsWell(batch);
    await expect(batch.continue()).rejects.toMatchObject({ type: 'BatchEnded' });
  });

  test('that is cancelled while it is held has a retry with the same canary', { tags: 'long' }, async () => {
    const batch = await startBatch({ canary: 2 });
    await isHeld(batch);
    await batch.cancel();
    expect(await batch.result()).toMatchObject({ completed: 2, errors: 6, errorsByType: { Cancelled: 6 } });
    const retry = await batch.retry();
    expect(await isHeld(retry)).toMatchObject({ reason: 'the canary has ended: 2 of 6 items' });
    expect(sentTo(batch.batchId)).toHaveLength(4);
    await retry.continue();
    expect(await retry.result()).toMatchObject({ total: 6, completed: 6 });
    expect(sentTo(batch.batchId)).toHaveLength(8);
  });

  test('can be told to continue before the canary has ended', { tags: 'long' }, async () => {
    const batch = await startBatch({ canary: 1 });
    expect(await batch.continue()).toBeNull();
    await endsWell(batch);
  });
});

test.concurrent('a batch in which more items fail than may is held, and continues when told to', async () => {
  const id = `brake-${randomUUID().slice(0, 8)}`;
  const items = makeItems(batches.stack, [id], 8, FAST);
  for (const item of items.slice(0, 3)) item.jobId = `missing-${item.jobId}`;
  const batch = await batches.stack.followUps.startBatch({ id, items, maxFailures: '25%', maxOpen: 1 });
  expect(await isHeld(batch)).toMatchObject({ name: 'max-failures', reason: '3 of 8 items failed (25% may)' });
  const atHold = sentTo(id).length;
  expect(atHold).toBeLessThanOrEqual(1);
  await batch.continue();
  await expect(batch.continue()).rejects.toMatchObject({ type: 'BatchNotHeld' });
  expect(await batch.result()).toMatchObject({ completed: 5, errorsByType: { JobNotFound: 3 } });
});
