import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { carryState, newState } from '../../src/budget/index.js';
import { projectBudgetWorkflowId, progressQuery } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
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
  const workflow = stack.client.workflow.getHandle(handle.workflowId);
  const progress = await eventually('it is blocked', async () => {
    const now = await workflow.query(progressQuery);
    return now.state === 'blocked' ? now : undefined;
  });
  expect(progress.waitReason).toBe('gate-stopped');
  expect(stack.simulator.ledger.filter((entry) => entry.projectId === projectId)).toHaveLength(1);
  // No budget can confirm it, but the follow-up knows the result of each of its asks.
  await handle.cancel();
  await expect(handle.result()).rejects.toMatchObject({ name: 'FollowUpCancelledError', delivered: 'no' });
});

test.concurrent('a budget refuses an invalid input', async () => {
  const handle = await stack.client.workflow.start('projectBudget', {
    taskQueue: `${stack.taskQueue}-budget`,
    workflowId: projectBudgetWorkflowId(`bad-${Date.now()}`),
    args: [{ projectId: 'other', settings: { limit: -1 } }],
  });
  await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
});

test.concurrent(
  'a budget is not restored from a state with impossible times, which would stop it for good',
  async () => {
    const projectId = `unsound-${Date.now()}`;
    const settings = { limit: 5, windowMs: 10_000, reserve: 0, marginMs: 100 };
    const start = (input: object) =>
      stack.client.workflow.execute('projectBudget', {
        taskQueue: `${stack.taskQueue}-budget`,
        workflowId: projectBudgetWorkflowId(projectId),
        args: [{ projectId, settings, ...input }],
      });
    const carried = carryState(newState(projectId, settings));
    const grant = [`job/key`, null, 1, 'token', 'messages', 0, 1, 'no number', 60_000, 120_000, null, null, null];
    for (const input of [
      { restored: { ...carried, grants: [grant] } },
      { restored: { ...carried, grants: [grant.with(7, -1e300)] } },
      { restored: { ...carried, atMs: 1e300 } },
      { restored: carried, inFlightUntilMs: 1e300 },
    ]) {
      await expect(start(input)).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
    }
  },
);

test.concurrent('a budget skips signals that make no sense, and refuses such asks', async () => {
  const projectId = `nonsense-${Date.now()}`;
  for (const jobId of ['job-1', 'job-2']) stack.simulator.addJob({ projectId, jobId });
  await stack.followUps.run({ projectId, jobId: 'job-1', prompt: 'first', ...FAST });
  const handle = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  await handle.signal('report');
  for (const nonsense of [null, 7, [], { workflowId: 1 }, [null, 7, [], { kind: 'settle' }]]) {
    await handle.signal('report', nonsense);
  }
  await expect(handle.executeUpdate('acquire', { args: [null] })).rejects.toThrow();
  await expect(handle.executeUpdate('acquire', { args: [[{ workflowId: 'x', token: 't' }]] })).rejects.toThrow();
  expect(await stack.followUps.run({ projectId, jobId: 'job-2', prompt: 'second', ...FAST })).toMatchObject({
    delivery: 'sent',
  });
  const { events } = await handle.fetchHistory();
  expect(events?.some((event) => event.workflowTaskFailedEventAttributes)).toBe(false);
});
