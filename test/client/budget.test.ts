import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
  type BudgetHandle,
  type BudgetUpdate,
  FollowUpClient,
  InvalidInputError,
  type RestoreOptions,
  TemporalUnreachableError,
  WorkerUnavailableError,
} from '../../src/client/index.js';
import type { Lane } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    // The window is longer than any test, so only orders let follow-ups go.
    env: { FOLLOW_UP_BUDGET_LIMIT: '4', FOLLOW_UP_BUDGET_MAX_LIMIT: '100', FOLLOW_UP_BUDGET_WINDOW: '1h' },
    simulator: { autoCreate: true },
  });
});
afterAll(() => stack.stop());

const newBudget = () => stack.followUps.budget(`operate-${randomUUID().slice(0, 8)}`);
const terminate = ({ workflowId }: BudgetHandle) => stack.client.workflow.getHandle(workflowId).terminate();
const start = ({ projectId }: BudgetHandle, lane: Lane, ...jobIds: string[]) =>
  Promise.all(jobIds.map((jobId) => stack.followUps.start({ projectId, jobId, prompt: 'Add tests.', lane, ...FAST })));
const sendsOf = ({ projectId }: BudgetHandle) => stack.simulator.ledger.filter((send) => send.projectId === projectId);
const isSent = (budget: BudgetHandle, count: number) =>
  eventually(`${count} are sent`, () => sendsOf(budget).length >= count);
const waits = (budget: BudgetHandle, count: number) =>
  eventually(`${count} wait`, async () => {
    const status = await budget.status();
    return status?.waitingTotal === count && status.unsettled === 0;
  });

test.concurrent('orders hold follow-ups back and let them go, by lane', async () => {
  const budget = newBudget();
  const settings = { limit: 0, windowMs: 3_600_000, reserve: 0, used: 0 };
  expect(await budget.setLimit({ limit: 0 })).toMatchObject(settings);
  await start(budget, 'batch', 'batch-1', 'batch-2');
  await waits(budget, 2);
  expect(await budget.setLimit({ limit: 3, reserve: 2 })).toMatchObject({ limit: 3, reserve: 2 });
  await isSent(budget, 1);
  await waits(budget, 1);
  // The other slots are reserved for the interactive lane.
  await start(budget, 'interactive', 'now-1');
  await isSent(budget, 2);
  expect(sendsOf(budget).map(({ jobId }) => jobId.slice(0, 5))).toEqual(['batch', 'now-1']);
  expect(await budget.pause({ note: 'release freeze' })).toMatchObject({
    paused: { reasons: ['operator'], note: 'release freeze' },
  });
  await budget.setLimit({ limit: 4, reserve: 0 });
  const paused = (await budget.status())?.waiting;
  expect(paused).toMatchObject([{ position: 1, workflowId: expect.stringContaining('/batch-') }]);
  expect(sendsOf(budget)).toHaveLength(2);
  expect(await budget.resume()).not.toHaveProperty('paused');
  await isSent(budget, 3);
});

test.concurrent(
  'a pause for a time ends by itself; the audit and a watch show the send, the stop and the restore',
  async () => {
    const budget = newBudget();
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
    const [followUp] = await start(budget, 'interactive', 'a-1');
    await followUp?.result();
    const receivedAtMs = sendsOf(budget)[0]?.receivedAtMs ?? NaN;
    expect(receivedAtMs).toBeGreaterThanOrEqual(Date.parse(paused?.until ?? ''));
    await sees('a slot', ({ status }) => status?.used === 1 && !status.paused);
    const [send, ...others] = await budget.audit();
    expect(others).toEqual([]);
    expect(send).toMatchObject({ workflowId: followUp?.workflowId, sendNumber: 1, outcome: 'sent' });
    expect(Date.parse(send?.grantedAt ?? '')).toBeLessThanOrEqual(receivedAtMs + 50);
    expect(Date.parse(send?.settledAt ?? '')).toBeGreaterThanOrEqual(receivedAtMs - 50);

    await budget.setLimit({ limit: 7 });
    await terminate(budget);
    await sees('its end', ({ state, status }) => state === 'stopped' && status?.used === 1);
    const message = expect.stringContaining(`follow-up budget restore ${budget.projectId}`);
    for (const order of [() => budget.setLimit({ limit: 9 }), () => budget.pause(), () => budget.resume()])
      await expect(order()).rejects.toMatchObject({ type: 'BudgetStopped', message });
    const restored = await budget.restore();
    expect(restored).toMatchObject({ settings: { limit: 7, windowMs: 3_600_000 }, stopped: { status: 'terminated' } });
    expect(restored.runId).not.toBe(restored.stopped.runId);
    await eventually('that it runs again', () => updates.at(-1)?.state === 'running');
    controller.abort();
    await watching;
  },
);

test.concurrent(
  'a budget that an order starts has the documented defaults, or the settings of the client',
  async () => {
    const budget = newBudget();
    expect(await budget.resume()).toMatchObject({ limit: 100, windowMs: 3_600_000, reserve: 0, used: 0 });
    await budget.setLimit({ limit: 5 });
    const issues = [{ field: 'reserve', message: expect.stringContaining('limit 5') }];
    await expect(budget.setLimit({ reserve: 5 })).rejects.toMatchObject({ name: 'InvalidInputError', issues });
    expect(await budget.status()).toMatchObject({ limit: 5, reserve: 0 });
    const { client, taskQueue } = stack;
    const budgetSettings = { limit: 9, windowMs: 60_000, reserve: 2, marginMs: 0 };
    const other = new FollowUpClient({ client, taskQueue, budgetSettings }).budget(newBudget().projectId);
    expect(await other.pause()).toMatchObject({ limit: 9, windowMs: 60_000, reserve: 2 });
  },
);

test.concurrent('without a worker, an order says so', async () => {
  const idle = new FollowUpClient({ client: stack.client, taskQueue: `nobody-${randomUUID()}` });
  const error = await idle
    .budget(newBudget().projectId)
    .setLimit({ limit: 5 })
    .catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(WorkerUnavailableError);
  expect(error).toMatchObject({ reason: expect.stringContaining('no worker') });
});

describe('a client without a server', () => {
  // No server listens there: what is sent fails with another error than what is refused.
  const nowhere = Connection.lazy({ address: '127.0.0.1:1', interceptors: [] });
  afterAll(() => nowhere.close());
  const budget = new FollowUpClient({ client: new Client({ connection: nowhere }) }).budget('p');

  test.each<[what: string, order: () => Promise<unknown>, fields: string[]]>([
    ['nothing to set', () => budget.setLimit({}), ['']],
    [
      'limits out of range',
      () => budget.setLimit({ limit: -1, window: '0s', reserve: -1 }),
      ['limit', 'window', 'reserve'],
    ],
    ['limits of another kind', () => budget.setLimit({ limit: 1.5, window: 'x' }), ['limit', 'window']],
    ['a limit above 10,000', () => budget.setLimit({ limit: 10_001 }), ['limit']],
    ['a reserve as large as the limit', () => budget.setLimit({ limit: 5, reserve: 5 }), ['reserve']],
    ['a bad pause', () => budget.pause({ for: '0s', note: 'x'.repeat(201) }), ['for', 'note']],
    ['an unknown option', () => budget.restore({ inFlight: '3m' } as RestoreOptions), ['inFlight']],
  ])('refuses %s before anything is sent', async (_what, order, fields) => {
    const error = await order().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InvalidInputError);
    expect((error as InvalidInputError).issues.map(({ field }) => field)).toEqual(fields);
  });

  test('says that it cannot be reached', async () => {
    for (const order of [() => budget.pause(), () => budget.restore(), () => budget.watch().next()])
      await expect(order()).rejects.toThrow(TemporalUnreachableError);
  });
});

describe.concurrent('limits that change in a real window', { tags: 'long' }, () => {
  test('a waiting follow-up shows its current place in the budget’s queue', async () => {
    const budget = newBudget();
    await budget.setLimit({ limit: 0 });
    const [ahead] = await start(budget, 'interactive', 'ahead');
    await waits(budget, 1);
    const [behind] = await start(budget, 'batch', 'behind');
    await waits(budget, 2);
    await eventually('the answer has reached it', async () => (await behind?.progress())?.position === 2);
    await ahead?.cancel();
    await waits(budget, 1);
    // The follow-up has not asked since.
    expect(await behind?.progress()).toMatchObject({ state: 'waiting-for-budget', position: 1 });
    expect(await behind?.progress()).not.toHaveProperty('asOf');
    await behind?.cancel();
  });

  test('after a lowered limit, no window holds more messages than the new limit', async () => {
    const budget = newBudget();
    const first = await start(budget, 'interactive', 'a-1', 'a-2', 'a-3', 'a-4');
    await isSent(budget, 4);
    expect(await budget.setLimit({ limit: 2 })).toMatchObject({ limit: 2, used: 4 });
    const windowMs = 3_000;
    await budget.setLimit({ window: windowMs });
    const changedAtMs = Date.now();
    const more = await start(budget, 'interactive', 'b-1', 'b-2', 'b-3', 'b-4');
    await Promise.all([...first, ...more].map((followUp) => followUp.result()));
    const instants = sendsOf(budget).map(({ receivedAtMs }) => receivedAtMs);
    const later = instants.filter((atMs) => atMs > changedAtMs);
    expect(later).toHaveLength(4);
    for (const atMs of later) {
      const inWindow = instants.filter((other) => other > atMs - windowMs && other <= atMs);
      expect(inWindow.length).toBeLessThanOrEqual(2);
    }
  });
});
