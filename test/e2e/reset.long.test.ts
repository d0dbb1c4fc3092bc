import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { resetToTask } from '../../chaos/buttons.js';
import type { FollowUpResult } from '../../src/contract/index.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    env: { FOLLOW_UP_BUDGET_LIMIT: '1', FOLLOW_UP_BUDGET_WINDOW: '5s', FOLLOW_UP_MARGIN: '200ms' },
    simulator: { turn: { minMs: 1_000, maxMs: 1_500 } },
  });
});
afterAll(() => stack.stop());

test.concurrent('a follow-up that is reset to any of its workflow tasks is not delivered again', async () => {
  const projectId = `reset-${Date.now()}`;
  stack.simulator.addJob({ projectId, jobId: 'job' });
  const handle = await stack.followUps.start({ projectId, jobId: 'job', prompt: 'once', ...FAST });
  await handle.result();
  const workflow = stack.client.workflow.getHandle(handle.workflowId);
  const { runId } = await workflow.describe();
  const { events } = await workflow.fetchHistory();
  const tasks = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
  expect(tasks.length).toBeGreaterThan(3);
  for (const task of [tasks[0], tasks[1], tasks.at(-1)]) {
    await resetToTask(stack.client, { workflowId: handle.workflowId, runId }, task);
    const result = (await stack.client.workflow.getHandle(handle.workflowId).result()) as FollowUpResult;
    expect(result).toMatchObject({ status: 'completed', delivery: 'sent' });
  }
  expect(stack.simulator.ledger.filter((entry) => entry.projectId === projectId)).toHaveLength(1);
});

test.concurrent(
  'a follow-up that is reset to its wait for a slot and cancelled there does not deny its later send',
  async () => {
    const projectId = `denied-${Date.now()}`;
    for (const jobId of ['first', 'second']) stack.simulator.addJob({ projectId, jobId });
    await stack.followUps.run({ projectId, jobId: 'first', prompt: 'takes the slot', ...FAST });
    const handle = await stack.followUps.start({ projectId, jobId: 'second', prompt: 'waits', ...FAST });
    await handle.result();
    const workflow = stack.client.workflow.getHandle(handle.workflowId);
    const { runId } = await workflow.describe();
    const { events } = await workflow.fetchHistory();
    // The budget's first answer, to wait, proved that nothing was sent. The reset goes to the second task after it.
    const answered = (events ?? []).findIndex((event) => event.activityTaskCompletedEventAttributes);
    const tasks = (events ?? []).slice(answered).filter((event) => event.workflowTaskCompletedEventAttributes);
    expect(tasks.length).toBeGreaterThan(2);
    await resetToTask(stack.client, { workflowId: handle.workflowId, runId }, tasks[1]);
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ type: 'Cancelled', delivered: 'yes' });
    expect(stack.simulator.ledger.filter((entry) => entry.projectId === projectId)).toHaveLength(2);
  },
);
