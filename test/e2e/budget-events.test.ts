import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

/** Sends to `count` new jobs of a project, all at once, and waits until each has ended. */
async function followUpOn(projectId: string, count: number): Promise<void> {
  const inputs = Array.from({ length: count }, () => ({ projectId, jobId: randomUUID(), prompt: 'go on', ...FAST }));
  for (const { jobId } of inputs) stack.simulator.addJob({ projectId, jobId });
  const results = await Promise.all(inputs.map((input) => stack.followUps.run(input)));
  expect(results.every(({ delivery }) => delivery === 'sent')).toBe(true);
}

/** Length of a budget's history once it has heard everything. */
async function eventsOf(budget: WorkflowHandle): Promise<number> {
  const { historyLength } = await eventually('the budget has nothing to do', async () => {
    const description = await budget.describe();
    return description.raw.pendingWorkflowTask ? undefined : description;
  });
  return historyLength;
}

test('one follow-up alone costs its budget at most 13 events', async () => {
  const projectId = `alone-${randomUUID()}`;
  await followUpOn(projectId, 1);
  const budget = stack.client.workflow.getHandle(stack.followUps.budget(projectId).workflowId);
  const before = await eventsOf(budget);
  await followUpOn(projectId, 1);
  expect((await eventsOf(budget)) - before).toBeLessThanOrEqual(13);
});

test.each([20, 50])('of %i follow-ups at once, each costs the budget at most 6 events', async (count) => {
  const projectId = `crowd-${randomUUID()}`;
  await followUpOn(projectId, count);
  const budget = stack.client.workflow.getHandle(stack.followUps.budget(projectId).workflowId);
  expect((await eventsOf(budget)) / count).toBeLessThanOrEqual(6);
});
