import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { isSettleUrgent } from '../../src/activities/ask-again.js';
import { budgetStatusQuery } from '../../src/contract/index.js';
import type { AcquireRequest } from '../../src/contract/protocol.js';
import { connectBudgetClient, makeAcquireRequest } from '../support/budget-client.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, startStack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

/** Runs a follow-up to a new job of a project. */
async function followUp(projectId: string): Promise<void> {
  const jobId = randomUUID();
  stack.simulator.addJob({ projectId, jobId });
  expect(await stack.followUps.run({ projectId, jobId, prompt: 'go on', ...FAST })).toMatchObject({ delivery: 'sent' });
}

/** The length of a budget's history once it has nothing left to do. */
async function eventsOf(budget: WorkflowHandle): Promise<number> {
  const { historyLength } = await eventually('the budget has nothing to do', async () => {
    const description = await budget.describe();
    return description.raw.pendingWorkflowTask ? undefined : description;
  });
  return historyLength;
}

test('one follow-up alone costs its budget at most 13 events', async () => {
  const projectId = `alone-${randomUUID()}`;
  await followUp(projectId);
  const budget = stack.client.workflow.getHandle(stack.followUps.budget(projectId).workflowId);
  const before = await eventsOf(budget);
  await followUp(projectId);
  expect((await eventsOf(budget)) - before).toBeLessThanOrEqual(13);
});

// These are the calls of follow-ups without the follow-ups, so the speed of the machine does not decide which share a
// call.
test.each([20, 50])('of %i follow-ups at once, each costs the budget at most 6 events', async (count) => {
  const { taskQueue, namespace } = stack;
  const address = inject('temporalAddress');
  const { budget, close } = await connectBudgetClient({ address, taskQueue, namespace, limit: 100 });
  const projectId = `crowd-${randomUUID()}`;
  const all = Array.from({ length: count }, () => {
    const jobId = randomUUID();
    return makeAcquireRequest({ workflowId: `follow-up/${projectId}/${jobId}/key`, jobId });
  });
  const tell = (kind: 'settle' | 'finish', request: AcquireRequest, isUrgent: boolean) =>
    budget.tell(projectId, { kind, ...request, outcome: 'sent' }, { isUrgent });
  for (let waiting = all; waiting.length > 0;) {
    const asks = await Promise.all(waiting.map(async (each) => ({ each, ...(await budget.acquire(projectId, each)) })));
    const settles = asks.map(async ({ each, answer }) => {
      if (answer.kind === 'granted') await tell('settle', each, isSettleUrgent('sent', answer));
    });
    await Promise.all(settles);
    waiting = asks.filter(({ answer }) => answer.kind !== 'granted').map(({ each }) => each);
  }
  await Promise.all(all.map((each) => tell('finish', each, false)));
  const handle = stack.client.workflow.getHandle(stack.followUps.budget(projectId).workflowId);
  expect(await handle.query(budgetStatusQuery)).toMatchObject({ used: count, unsettled: 0, waitingTotal: 0 });
  expect((await eventsOf(handle)) / count).toBeLessThanOrEqual(6);
  await close();
});
