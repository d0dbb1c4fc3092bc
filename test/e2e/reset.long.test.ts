import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { resetToTask } from '../support/buttons.js';
import type { FollowUpResult } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { failureOf } from '../support/failure-of.js';
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
    const first = await stack.followUps.start({ projectId, jobId: 'first', prompt: 'takes the slot', ...FAST });
    await eventually('it took the slot', async () => (await first.progress()).state === 'polling');
    const handle = await stack.followUps.start({ projectId, jobId: 'second', prompt: 'waits', ...FAST });
    await handle.result();
    const workflow = stack.client.workflow.getHandle(handle.workflowId);
    const { runId } = await workflow.describe();
    const { events } = await workflow.fetchHistory();
    // The first task has the budget's answer to the first run, to wait, which proves nothing about a later run.
    const sent = (events ?? []).findIndex((event) => event.activityTaskScheduledEventAttributes);
    const tasks = (events ?? []).slice(0, sent).filter((event) => event.workflowTaskCompletedEventAttributes);
    expect(tasks.length).toBeGreaterThan(1);
    await resetToTask(stack.client, { workflowId: handle.workflowId, runId }, tasks[1]);
    await handle.cancel();
    const failure = await failureOf(stack.client.workflow.getHandle(handle.workflowId).result());
    expect(failure).toMatchObject({ type: 'Cancelled', delivered: expect.stringMatching(/^(yes|unknown)$/) as string });
    expect(stack.simulator.ledger.filter((entry) => entry.projectId === projectId)).toHaveLength(2);
  },
);
