import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject } from 'vitest';
import type { BatchHandle } from '../../src/client/index.js';
import { whereTheyStand } from '../../tools/chaos/endings.js';
import { type FollowUpBatchResult, SearchAttribute } from '../../src/contract/index.js';
import { makeItems } from './batch.js';
import { eventually } from './eventually.js';
import { FAST, startStack, type Stack } from './stack.js';

/** Batches of eight items for tests of operator actions. Call it at the top level of a test file. */
export function operatedBatches() {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack({ address: inject('temporalAddress'), simulator: { autoCreate: true } });
  });
  afterAll(() => stack.stop());

  const sentTo = (projectId: string) => stack.simulator.ledger.filter((entry) => entry.projectId === projectId);
  const workflowOf = (workflowId: string) => stack.client.workflow.getHandle(workflowId);

  return {
    /** Set once the tests run. */
    get stack() {
      return stack;
    },
    sentTo,
    workflowOf,
    partOf: async (batch: BatchHandle) => (await batch.parts())[0]!,
    detailsOf: async (workflowId: string) =>
      (await workflowOf(workflowId).query<{ currentDetails: string }>('__temporal_workflow_metadata')).currentDetails,
    /** A batch with the same id as its project. With `held`, only three of its items are sent. */
    startBatch: async ({ held = false } = {}): Promise<BatchHandle> => {
      const id = `op-${randomUUID().slice(0, 8)}`;
      if (held) await stack.followUps.budget(id).setLimit({ limit: 3 });
      return stack.followUps.startBatch({ id, items: makeItems(stack, [id], 8, FAST) });
    },
    threeHaveEnded: (batch: BatchHandle) =>
      eventually('three have ended', async () => (await batch.status()).completed === 3),
    /** Waits until all eight items have arrived. If they do not, the error says where their follow-ups stand. */
    allArrive: (batch: BatchHandle) =>
      eventually('all have arrived', () => sentTo(batch.batchId).length === 8).catch(async (error: unknown) => {
        const query = `${SearchAttribute.batchId.name} = '${batch.batchId}'`;
        throw new Error(`${String(error)}\n${await whereTheyStand(stack.client, query)}`);
      }),
    letAllGo: (batch: BatchHandle) => stack.followUps.budget(batch.batchId).setLimit({ limit: 100 }),
    /** Expects that all eight items were sent once and completed. */
    endsWell: async (batch: BatchHandle): Promise<FollowUpBatchResult> => {
      const result = await batch.result();
      expect(result).toMatchObject({ total: 8, completed: 8, errors: 0 });
      expect(result.items.filter(({ status }) => status === 'completed')).toHaveLength(8);
      expect(sentTo(batch.batchId)).toHaveLength(8);
      return result;
    },
  };
}
