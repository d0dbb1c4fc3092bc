import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type BudgetUpdate, FollowUpClient, WorkerUnavailableError } from '../../src/client/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, startStack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress'), simulator: { autoCreate: true } });
});
afterAll(() => stack.stop());

const newBudget = () => stack.followUps.budget(`operate-${randomUUID().slice(0, 8)}`);

test.concurrent(
  'a pause for a time ends by itself; a watch and the audit show the pause, the send and the end',
  async () => {
    const budget = newBudget();
    const { projectId, workflowId } = budget;
    const updates: BudgetUpdate[] = [];
    const controller = new AbortController();
    const watching = (async () => {
      for await (const update of budget.watch({ intervalMs: 50, signal: controller.signal })) updates.push(update);
    })();
    const sees = (what: string, matches: (update: BudgetUpdate) => boolean) =>
      eventually(what, () => updates.some(matches));
    await sees('no budget yet', ({ state, status }) => state === 'none' && !status);
    expect([await budget.audit(), await budget.status(), await budget.state()]).toEqual([[], undefined, 'none']);
    await budget.pause({ note: 'stop' });
    await sees('the pause', ({ status }) => status?.paused?.note === 'stop');
    const { paused } = await budget.pause({ for: '1s' });
    const followUp = await stack.followUps.start({ projectId, jobId: 'a-1', prompt: 'Add tests.', ...FAST });
    await followUp.result();
    const { receivedAtMs = NaN } = stack.simulator.ledger.find((send) => send.projectId === projectId) ?? {};
    expect(receivedAtMs).toBeGreaterThanOrEqual(Date.parse(paused?.until ?? ''));
    await sees('a slot', ({ status }) => status?.used === 1 && !status.paused);
    const [send, ...others] = await budget.audit();
    expect(others).toEqual([]);
    expect(send).toMatchObject({ workflowId: followUp.workflowId, sendNumber: 1, outcome: 'sent' });
    expect(Date.parse(send?.grantedAt ?? '')).toBeLessThanOrEqual(receivedAtMs + 50);
    expect(Date.parse(send?.outcomeAt ?? '')).toBeGreaterThanOrEqual(receivedAtMs - 50);

    await stack.client.workflow.getHandle(workflowId).terminate();
    await sees('its end', ({ state, status }) => state === 'stopped' && status?.used === 1);
    const { runId, stopped } = await budget.restore();
    expect(runId).not.toBe(stopped.runId);
    await eventually('that it runs again', () => updates.at(-1)?.state === 'running');
    controller.abort();
    await watching;
  },
);

test.concurrent(
  'a budget that a command starts has the documented defaults, or the settings of the client',
  async () => {
    const budget = newBudget();
    expect(await budget.resume()).toMatchObject({ limit: 100, windowMs: 3_600_000, reserve: 0, used: 0 });
    await budget.setLimit({ limit: 5 });
    const issues = [{ field: 'reserve', message: expect.stringContaining('limit 5') }];
    await expect(budget.setLimit({ reserve: 5 })).rejects.toMatchObject({ name: 'InvalidInputError', issues });
    const { client, taskQueue } = stack;
    const budgetSettings = { limit: 9, windowMs: 60_000, reserve: 2, marginMs: 0 };
    const other = new FollowUpClient({ client, taskQueue, budgetSettings }).budget(newBudget().projectId);
    expect(await other.pause()).toMatchObject({ limit: 9, windowMs: 60_000, reserve: 2 });
  },
);

test.concurrent('a command to a budget without a worker fails and says that no worker runs', async () => {
  const idle = new FollowUpClient({ client: stack.client, taskQueue: `nobody-${randomUUID()}` });
  const order = idle.budget(newBudget().projectId).setLimit({ limit: 5 });
  await expect(order).rejects.toBeInstanceOf(WorkerUnavailableError);
  await expect(order).rejects.toMatchObject({ reason: expect.stringContaining('no worker') });
});
