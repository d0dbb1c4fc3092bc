import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { deleteWorkflow, pauseWorkflow, resetWorkflow, sendNonsense, unpauseWorkflow } from '../../chaos/buttons.js';
import type { BatchHandle } from '../../src/client/index.js';
import {
  batchItemKey,
  followUpBatchWorkflowId,
  followUpWorkflowId,
  type FollowUpBatchResult,
} from '../../src/contract/index.js';
import { makeItems, measureHistories } from '../support/batch.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress'), simulator: { autoCreate: true } });
});
afterAll(() => stack.stop());

const sentTo = (projectId: string) => stack.simulator.ledger.filter((entry) => entry.projectId === projectId);
const partOf = (batch: BatchHandle) => followUpBatchWorkflowId({ batchId: batch.batchId, part: 0 });
const workflowOf = (workflowId: string) => stack.client.workflow.getHandle(workflowId);
const detailsOf = async (workflowId: string) =>
  (await workflowOf(workflowId).query<{ currentDetails: string }>('__temporal_workflow_metadata')).currentDetails;

/** A batch of eight; with `held` only three of them are sent. */
async function startBatch({ held = false } = {}): Promise<BatchHandle> {
  const id = `op-${randomUUID().slice(0, 8)}`;
  if (held) await stack.followUps.budget(id).setLimit({ limit: 3 });
  return stack.followUps.startBatch({ id, items: makeItems(stack, [id], 8, FAST) });
}

const threeHaveEnded = (batch: BatchHandle) =>
  eventually('three have ended', async () => (await batch.status()).completed === 3);

/** All eight were sent once, and the result says so. */
async function endsWell(batch: BatchHandle): Promise<FollowUpBatchResult> {
  const result = await batch.result();
  expect(result).toMatchObject({ total: 8, completed: 8, errors: 0 });
  expect(result.items.filter(({ status }) => status === 'completed')).toHaveLength(8);
  expect(sentTo(batch.batchId)).toHaveLength(8);
  return result;
}

const letAllGo = (batch: BatchHandle) => stack.followUps.budget(batch.batchId).setLimit({ limit: 100 });

describe('a batch that has ended and is reset', () => {
  test.each(['first', 'last'] as const)(
    'to its %s task looks up how its items ended, and has nothing to retry',
    async (point) => {
      const batch = await startBatch();
      const before = await endsWell(batch);
      await resetWorkflow(stack.client, batch.workflowId, point);
      expect(await endsWell(batch)).toEqual(before);
      await expect(batch.retry()).rejects.toMatchObject({ name: 'NothingToRetryError' });
      expect(sentTo(batch.batchId)).toHaveLength(8);
    },
  );

  test('after its part was deleted takes the results of its follow-ups', async () => {
    const batch = await startBatch();
    await endsWell(batch);
    await deleteWorkflow(stack.client, partOf(batch));
    await eventually('it is gone', () =>
      workflowOf(partOf(batch))
        .describe()
        .then(
          () => false,
          () => true,
        ),
    );
    await resetWorkflow(stack.client, batch.workflowId, 'first');
    await endsWell(batch);
  });
});

describe('a batch that runs', () => {
  test.each(['first', 'last'] as const)('and is reset to its %s task goes on, and knows all ends', async (point) => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await resetWorkflow(stack.client, batch.workflowId, point);
    await eventually('it knows them again', async () => (await batch.status()).completed === 3);
    await letAllGo(batch);
    await endsWell(batch);
    for (const workflowId of [batch.workflowId, partOf(batch)]) {
      expect(await measureHistories(stack, workflowId)).toMatchObject({ failedTasks: 0 });
    }
  });

  test('and is paused in Temporal, or has a part that is, says so, and goes on when that is undone', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    for (const workflowId of [batch.workflowId, partOf(batch)]) {
      await pauseWorkflow(stack.client, workflowId);
      const mend = `temporal workflow unpause --workflow-id ${workflowId}`;
      await eventually('it is named', async () => {
        const [trouble] = await batch.troubles();
        return trouble?.kind === 'paused' && trouble.mend === mend;
      });
      if (workflowId === batch.workflowId) {
        await expect(batch.status()).rejects.toMatchObject({ message: expect.stringContaining(mend) });
      }
      await unpauseWorkflow(stack.client, workflowId);
    }
    await letAllGo(batch);
    await endsWell(batch);
  });

  test('and is terminated says so, and how many follow-ups go on', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await workflowOf(batch.workflowId).terminate('by hand');
    await eventually('it says so', async () => {
      const { ended, cutOff, stillRunning } = await batch.status();
      return !ended && cutOff === 'terminated' && stillRunning === 5;
    });
    await letAllGo(batch);
    await eventually('they have ended', async () => (await batch.status()).stillRunning === 0);
    expect(sentTo(batch.batchId)).toHaveLength(8);
  });

  test('and is reset after it was terminated goes on with its parts', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await workflowOf(batch.workflowId).terminate('by hand');
    await resetWorkflow(stack.client, batch.workflowId, 'last');
    await letAllGo(batch);
    await endsWell(batch);
  });

  test('passes over nonsense', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await sendNonsense(stack.client, batch.workflowId, ['partReport']);
    await sendNonsense(stack.client, partOf(batch), ['partOrder', 'followUpEnded']);
    await letAllGo(batch);
    await endsWell(batch);
    for (const workflowId of [batch.workflowId, partOf(batch)]) {
      expect(await measureHistories(stack, workflowId)).toMatchObject({ failedTasks: 0 });
    }
  });
});

describe('a part of a batch', () => {
  test('that is terminated is started again: its items end as they would have', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await workflowOf(partOf(batch)).terminate('by hand');
    await letAllGo(batch);
    await endsWell(batch);
  });

  test.each(['first', 'last'] as const)('that is reset to its %s task goes on', async (point) => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await resetWorkflow(stack.client, partOf(batch), point);
    await letAllGo(batch);
    await endsWell(batch);
    await resetWorkflow(stack.client, partOf(batch), point);
    await workflowOf(partOf(batch)).result();
    expect(sentTo(batch.batchId)).toHaveLength(8);
  });

  test('that is asked to cancel goes on and says so', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await workflowOf(partOf(batch)).cancel();
    await eventually('it says so', async () => (await detailsOf(partOf(batch))).includes('asked to cancel'));
    expect(await detailsOf(partOf(batch))).toContain(`follow-up batch cancel ${batch.batchId}`);
    await letAllGo(batch);
    await endsWell(batch);
  });

  test('that is deleted leaves what it had reported, and a retry sends nothing that had arrived', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await deleteWorkflow(stack.client, partOf(batch));
    const result = await batch.result();
    expect(result).toMatchObject({ total: 8, completed: 3, errors: 5, unknown: 5, errorsByType: { Terminated: 5 } });
    await letAllGo(batch);
    await eventually('they have ended', () => sentTo(batch.batchId).length === 8);
    await expect(batch.retry()).rejects.toMatchObject({ name: 'NothingToRetryError' });
    expect(sentTo(batch.batchId)).toHaveLength(8);
  });
});

test('an item whose follow-up was terminated after its send counts as delivered, and is not retried', async () => {
  const id = `op-${randomUUID().slice(0, 8)}`;
  stack.simulator.addJob({ projectId: id, jobId: 'job', behaviour: { neverEnds: true } });
  const batch = await stack.followUps.startBatch({
    id,
    items: [{ projectId: id, jobId: 'job', prompt: 'x', ...FAST }],
  });
  const budget = stack.followUps.budget(id);
  await eventually('its send is settled', async () => (await budget.audit())[0]?.outcome === 'sent');
  await workflowOf(followUpWorkflowId({ projectId: id, jobId: 'job', key: batchItemKey(id, 0) })).terminate('by hand');
  const { items: ended } = await batch.result();
  expect(ended[0]?.error).toMatchObject({ type: 'Terminated', delivered: 'yes' });
  await expect(batch.retry()).rejects.toMatchObject({ name: 'NothingToRetryError' });
  expect(sentTo(id)).toHaveLength(1);
});
