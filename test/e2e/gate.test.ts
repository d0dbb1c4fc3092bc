import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { projectBudgetWorkflowId, progressQuery } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

test('a budget that was terminated is not replaced by an empty one: follow-ups wait and say so', async () => {
  const projectId = `stopped-${Date.now()}`;
  stack.simulator.addJob({ projectId, jobId: 'job-1' });
  stack.simulator.addJob({ projectId, jobId: 'job-2' });
  await stack.followUps.run({ projectId, jobId: 'job-1', prompt: 'first', ...FAST });
  await stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId)).terminate('by hand');
  const handle = await stack.followUps.start({ projectId, jobId: 'job-2', prompt: 'second', ...FAST });
  const workflow = stack.client.workflow.getHandle(handle.workflowId);
  const progress = await eventually('it is blocked', async () => {
    const now = await workflow.query(progressQuery);
    return now.state === 'blocked' ? now : undefined;
  });
  expect(progress.waitReason).toBe('gate-stopped');
  expect(stack.simulator.ledger.filter((entry) => entry.projectId === projectId)).toHaveLength(1);
  // Nobody can prove any more that no attempt of it was granted, so its cancel does not claim that nothing was sent.
  await handle.cancel();
  await expect(handle.result()).rejects.toMatchObject({ type: 'Cancelled', delivered: 'unknown' });
});

test('a project whose input is no budget is refused by the budget itself', async () => {
  const handle = await stack.client.workflow.start('projectBudget', {
    taskQueue: `${stack.taskQueue}-budget`,
    workflowId: projectBudgetWorkflowId(`bad-${Date.now()}`),
    args: [{ projectId: 'other', settings: { limit: -1 } }],
  });
  await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
});
