import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { followUpBatchWorkflowId, type FollowUpBatchResult } from '../../src/contract/index.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

async function runBatch(batchId: string, input: unknown): Promise<FollowUpBatchResult> {
  const handle = await stack.client.workflow.start('followUpBatch', {
    taskQueue: stack.taskQueue,
    workflowId: followUpBatchWorkflowId({ batchId }),
    args: [input],
  });
  return (await handle.result()) as FollowUpBatchResult;
}

test('one prompt for many jobs', async () => {
  const projectId = `jobs-${Date.now()}`;
  const jobIds = Array.from({ length: 12 }, (_, index) => `job-${index}`);
  for (const jobId of jobIds) stack.simulator.addJob({ projectId, jobId });
  const result = await runBatch(`b-${projectId}`, { projectId, prompt: 'same', jobIds: [...jobIds, 'unknown', 'b d'], defaults: FAST });
  console.log(JSON.stringify(result, null, 1));
  expect(result).toMatchObject({ total: 14, completed: 12, errors: 2 });
});
