import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { FollowUpResult } from '../../src/contract/index.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress'), simulator: { turn: { minMs: 1_000, maxMs: 1_500 } } });
});
afterAll(() => stack.stop());

test('a follow-up that is reset to any of its workflow tasks is not delivered again', async () => {
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
    await stack.client.workflowService.resetWorkflowExecution({
      namespace: stack.namespace,
      workflowExecution: { workflowId: handle.workflowId, runId },
      reason: 'test',
      requestId: randomUUID(),
      workflowTaskFinishEventId: task?.eventId ?? null,
    });
    const result = (await stack.client.workflow.getHandle(handle.workflowId).result()) as FollowUpResult;
    expect(result).toMatchObject({ status: 'completed', delivery: 'sent' });
  }
  expect(stack.simulator.ledger.filter((entry) => entry.projectId === projectId)).toHaveLength(1);
}, 120_000);
