import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { schemaCheck } from '../support/schema-check.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

test.concurrent('a terminated budget is not replaced by an empty one: follow-ups wait and say so', async () => {
  const projectId = `stopped-${Date.now()}`;
  stack.simulator.addJob({ projectId, jobId: 'job-1' });
  stack.simulator.addJob({ projectId, jobId: 'job-2' });
  await stack.followUps.run({ projectId, jobId: 'job-1', prompt: 'first', ...FAST });
  await stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId)).terminate('by hand');
  const handle = await stack.followUps.start({ projectId, jobId: 'job-2', prompt: 'second', ...FAST });
  const progress = await eventually('it is blocked and tries again', async () => {
    const now = await handle.progress();
    return now.state === 'blocked' && now.nextTryAt !== undefined ? now : undefined;
  });
  expect(progress.waitReason).toBe('budget-stopped');
  const own: unknown = await stack.client.workflow.getHandle(handle.workflowId).query('progress');
  expect(own).toMatchObject({ waitReason: 'budget-stopped' });
  expect(schemaCheck('follow-up-progress')(own)).toEqual([]);
  expect(progress.lastError?.message).toContain(`follow-up budget restore ${projectId}`);
  expect(stack.simulator.ledger.filter((entry) => entry.projectId === projectId)).toHaveLength(1);
  await handle.cancel();
  await expect(handle.result()).rejects.toMatchObject({ type: 'Cancelled', delivered: 'no' });
});

test.concurrent('a budget refuses an invalid input', async () => {
  const handle = await stack.client.workflow.start('projectBudget', {
    taskQueue: `${stack.taskQueue}-budget`,
    workflowId: projectBudgetWorkflowId(`bad-${Date.now()}`),
    args: [{ projectId: 'other', settings: { limit: -1 } }],
  });
  await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
});

test.concurrent('a budget skips signals that make no sense, and refuses such asks', async () => {
  const projectId = `nonsense-${Date.now()}`;
  for (const jobId of ['job-1', 'job-2']) stack.simulator.addJob({ projectId, jobId });
  await stack.followUps.run({ projectId, jobId: 'job-1', prompt: 'first', ...FAST });
  const handle = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  await handle.signal('tell');
  const workflowId = `follow-up/${projectId}/job-1/k`;
  for (const nonsense of [null, 7, [], { workflowId: 1 }, { kind: 'settle', workflowId }]) {
    await handle.signal('tell', nonsense);
  }
  await expect(handle.executeUpdate('ask', { args: [null] })).rejects.toThrow();
  await expect(handle.executeUpdate('ask', { args: [{ workflowId, runId: 'r' }] })).rejects.toThrow();
  expect(await stack.followUps.run({ projectId, jobId: 'job-2', prompt: 'second', ...FAST })).toMatchObject({
    delivery: 'sent',
  });
  const { events } = await handle.fetchHistory();
  expect(events?.some((event) => event.workflowTaskFailedEventAttributes)).toBe(false);
});
