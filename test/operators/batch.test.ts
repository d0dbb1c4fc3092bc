import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { pauseWorkflow, unpauseWorkflow } from '../support/buttons.js';
import {
  batchItemKey,
  followUpWorkflowId,
  projectBudgetWorkflowId,
  SearchAttribute,
} from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { operatedBatches } from '../support/operated-batches.js';
import { FAST } from '../support/stack.js';

const batches = operatedBatches();
const { sentTo, partOf, workflowOf, detailsOf, startBatch, threeHaveEnded, endsWell, letAllGo } = batches;

describe.concurrent('a running batch', () => {
  test(
    'that is paused in Temporal, or has a paused part, says so, and continues when it is unpaused',
    { tags: 'long' },
    async () => {
      const batch = await startBatch({ held: true });
      await threeHaveEnded(batch);
      for (const workflowId of [batch.workflowId, await partOf(batch)]) {
        await pauseWorkflow(batches.stack.client, workflowId);
        const fix = `temporal workflow unpause --workflow-id ${workflowId}`;
        await eventually('it is named', async () => {
          const [trouble] = await batch.troubles();
          return trouble?.kind === 'paused' && trouble.fix === fix;
        });
        if (workflowId === batch.workflowId) {
          await expect(batch.status()).rejects.toMatchObject({ message: expect.stringContaining(fix) });
        }
        await unpauseWorkflow(batches.stack.client, workflowId);
      }
      await letAllGo(batch);
      await endsWell(batch);
    },
  );

  test('that is terminated says so, and how many follow-ups still run', async () => {
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
});

test('the Temporal UI and command describe each message that people send', async () => {
  const batch = await startBatch();
  const { items } = await endsWell(batch);
  const described = async (workflowId: string) => {
    type Metadata = { definition: Record<string, { name: string; description?: string }[]> };
    const { definition } = await workflowOf(workflowId).query<Metadata>('__temporal_workflow_metadata');
    const handlers = Object.values(definition).flatMap((kind) => (Array.isArray(kind) ? kind : []));
    const names = handlers.filter(({ description }) => description).map(({ name }) => name);
    return names.filter((name) => !name.startsWith('__')).sort();
  };
  const ofBatch = ['addItems', 'batchItems', 'batchStatus', 'continueBatch', 'seal'];
  expect(await described(batch.workflowId)).toEqual(ofBatch);
  expect(await described(items[0]!.workflowId)).toEqual(['pollNow', 'progress', 'resolveDelivery']);
  const ofBudget = ['budgetStatus', 'pause', 'resume', 'setLimit', 'take'];
  expect(await described(projectBudgetWorkflowId(batch.batchId))).toEqual(ofBudget);
});

describe.concurrent('a part of a batch', () => {
  test('that is terminated is started again, and all its items end well', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await workflowOf(await partOf(batch)).terminate('by hand');
    await letAllGo(batch);
    await endsWell(batch);
  });

  test('that is asked to cancel continues and says so', async () => {
    const batch = await startBatch({ held: true });
    await threeHaveEnded(batch);
    await workflowOf(await partOf(batch)).cancel();
    await eventually('it says so', async () => (await detailsOf(await partOf(batch))).includes('asked to cancel'));
    expect(await detailsOf(await partOf(batch))).toContain(`follow-up batch cancel ${batch.batchId}`);
    await letAllGo(batch);
    await endsWell(batch);
  });
});

test.concurrent(
  'an item whose follow-up was terminated after its send counts as delivered, and is not retried',
  async () => {
    const id = `op-${randomUUID().slice(0, 8)}`;
    batches.stack.simulator.addJob({ projectId: id, jobId: 'job', behaviour: { neverEnds: true } });
    const batch = await batches.stack.followUps.startBatch({
      id,
      items: [{ projectId: id, jobId: 'job', prompt: 'x', ...FAST }],
    });
    const followUp = workflowOf(followUpWorkflowId({ projectId: id, jobId: 'job', key: batchItemKey(id, 0) }));
    await eventually('it shows that its message is sent', async () => {
      const found = await followUp.describe().catch(() => undefined);
      return found?.typedSearchAttributes.get(SearchAttribute.state) === 'polling';
    });
    await followUp.terminate('by hand');
    const { items: ended } = await batch.result();
    expect(ended[0]?.error).toMatchObject({ type: 'Terminated', delivered: 'yes' });
    await expect(batch.retry()).rejects.toMatchObject({ type: 'NothingToRetry' });
    expect(sentTo(id)).toHaveLength(1);
  },
);
