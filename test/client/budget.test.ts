import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import {
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
    env: {
      FOLLOW_UP_BUDGET_LIMIT: '4',
      FOLLOW_UP_BUDGET_MAX_LIMIT: '100',
      FOLLOW_UP_BUDGET_WINDOW: '1h',
      FOLLOW_UP_MARGIN: '200ms',
    },
    simulator: { autoCreate: true },
  });
});
afterAll(() => stack.stop());

const newProject = () => `operate-${randomUUID().slice(0, 8)}`;
const start = (projectId: string, lane: Lane, ...jobIds: string[]) =>
  Promise.all(jobIds.map((jobId) => stack.followUps.start({ projectId, jobId, prompt: 'Add tests.', lane, ...FAST })));
const ledgerOf = (projectId: string) => stack.simulator.ledger.filter((entry) => entry.projectId === projectId);
const isSent = (projectId: string, count: number) =>
  eventually(`${count} are sent`, () => ledgerOf(projectId).length >= count);
const waits = (projectId: string, count: number) =>
  eventually(`${count} wait`, async () => {
    const status = await stack.followUps.budget(projectId).status();
    return status?.waitingTotal === count && status.unsettled === 0;
  });

test.concurrent(
  'a waiting follow-up shows its current place in the budget’s queue, in progress and list',
  { tags: 'long' },
  async () => {
    const projectId = newProject();
    await start(projectId, 'interactive', 'a-1', 'a-2', 'a-3', 'a-4');
    await isSent(projectId, 4);
    const [ahead] = await start(projectId, 'interactive', 'ahead');
    await waits(projectId, 1);
    const batch = await stack.followUps.startBatch({
      id: projectId,
      items: [{ projectId, jobId: 'behind', prompt: 'Add tests.', ...FAST }],
    });
    await waits(projectId, 2);
    const behind = stack.followUps.handle(`follow-up/${projectId}/behind/${projectId}:0`);
    const waiting = await eventually('the budget’s answer has reached it', async () => {
      const progress = await behind.progress();
      return progress.state === 'waiting-for-budget' ? progress : undefined;
    });
    expect(waiting).toMatchObject({ position: 2 });
    await ahead?.cancel();
    await waits(projectId, 1);
    // The follow-up has not asked since.
    const { position, expectedSendAt, asOf } = await behind.progress();
    expect({ position, asOf }).toEqual({ position: 1, asOf: undefined });
    expect(Date.parse(expectedSendAt ?? '')).toBeGreaterThan(Date.now());
    await batch.cancel();
    await batch.result();
  },
);

describe.concurrent('setLimit', () => {
  test('a raised limit lets waiting follow-ups go at once', { tags: 'long' }, async () => {
    const projectId = newProject();
    const followUps = await start(projectId, 'interactive', 'a-1', 'a-2', 'a-3', 'a-4', 'a-5', 'a-6');
    await waits(projectId, 2);
    const budget = stack.followUps.budget(projectId);
    expect(ledgerOf(projectId)).toHaveLength(4);
    expect(await budget.setLimit({ limit: 6 })).toMatchObject({ limit: 6, windowMs: 3_600_000, used: 6 });
    await isSent(projectId, 6);
    await Promise.all(followUps.map((followUp) => followUp.result()));
  });

  test('after a lowered limit, no window holds more messages than the new limit', { tags: 'long' }, async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    const first = await start(projectId, 'interactive', 'a-1', 'a-2', 'a-3', 'a-4');
    await isSent(projectId, 4);
    const change = await budget.setLimit({ limit: 2 });
    expect(change).toMatchObject({ limit: 2, used: 4 });
    const windowMs = 3_000;
    await budget.setLimit({ window: windowMs });
    const changedAtMs = Date.now();
    const more = await start(projectId, 'interactive', 'b-1', 'b-2', 'b-3', 'b-4');
    await Promise.all([...first, ...more].map((followUp) => followUp.result()));
    const instants = ledgerOf(projectId).map(({ receivedAtMs }) => receivedAtMs);
    const later = instants.filter((atMs) => atMs > changedAtMs);
    expect(later).toHaveLength(4);
    for (const atMs of later) {
      const inWindow = instants.filter((other) => other > atMs - windowMs && other <= atMs);
      expect(inWindow.length).toBeLessThanOrEqual(2);
    }
  });

  test('a reserve keeps the batch lane out of the last slots', async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    expect(await budget.setLimit({ limit: 3, window: '1h', reserve: 2 })).toMatchObject({ limit: 3, reserve: 2 });
    await start(projectId, 'batch', 'batch-1', 'batch-2');
    await isSent(projectId, 1);
    await waits(projectId, 1);
    await start(projectId, 'interactive', 'now-1', 'now-2');
    await isSent(projectId, 3);
    expect(ledgerOf(projectId).filter(({ jobId }) => jobId.startsWith('batch'))).toHaveLength(1);
    // Without a reserve, the last batch follow-up needs only a slot.
    await budget.setLimit({ limit: 4, reserve: 0 });
    await isSent(projectId, 4);
  });

  test('a limit of 0 lets nothing through until it is raised', async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    expect(await budget.setLimit({ limit: 0 })).toMatchObject({ limit: 0, used: 0 });
    const [followUp] = await start(projectId, 'interactive', 'a-1');
    await waits(projectId, 1);
    expect((await budget.status())?.waiting[0]).toMatchObject({ workflowId: followUp?.workflowId, position: 1 });
    await budget.setLimit({ limit: 1 });
    expect(await followUp?.result()).toMatchObject({ status: 'completed' });
  });
});

describe.concurrent('pause and resume', () => {
  test('a pause holds everything back, shows its note, and ends with a resume', { tags: 'long' }, async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    expect(await budget.pause({ note: 'release freeze' })).toMatchObject({
      paused: { reasons: ['operator'], note: 'release freeze' },
    });
    const followUps = await start(projectId, 'interactive', 'a-1', 'a-2');
    await waits(projectId, 2);
    await eventually('they say why they wait', async () => {
      const [one, two] = await Promise.all(followUps.map((followUp) => followUp.progress()));
      return one?.waitReason === 'paused' && two?.waitReason === 'paused';
    });
    expect(ledgerOf(projectId)).toHaveLength(0);
    expect(await budget.resume()).not.toHaveProperty('paused');
    await isSent(projectId, 2);
    await Promise.all(followUps.map((followUp) => followUp.result()));
  });

  test('a pause for a time ends by itself', async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    const { paused } = await budget.pause({ for: '3s' });
    const [followUp] = await start(projectId, 'interactive', 'a-1');
    await followUp?.result();
    expect(ledgerOf(projectId)[0]?.receivedAtMs).toBeGreaterThanOrEqual(Date.parse(paused?.until ?? ''));
    expect(await budget.status()).not.toHaveProperty('paused');
  });
});

describe('invalid input', () => {
  const bad: [what: string, order: (client: FollowUpClient) => Promise<unknown>, fields: string[]][] = [
    ['nothing to set', (client) => client.budget('p').setLimit({}), ['']],
    ['a limit below 0', (client) => client.budget('p').setLimit({ limit: -1 }), ['limit']],
    ['a limit that is not a whole number', (client) => client.budget('p').setLimit({ limit: 1.5 }), ['limit']],
    ['a limit above 10,000', (client) => client.budget('p').setLimit({ limit: 10_001 }), ['limit']],
    ['a window of 0 s', (client) => client.budget('p').setLimit({ window: '0s' }), ['window']],
    ['a window that is not a duration', (client) => client.budget('p').setLimit({ window: 'an hour' }), ['window']],
    ['a reserve as large as the limit', (client) => client.budget('p').setLimit({ limit: 5, reserve: 5 }), ['reserve']],
    [
      'all of it at once',
      (client) => client.budget('p').setLimit({ limit: -1, window: 'x', reserve: -1 }),
      ['limit', 'window', 'reserve'],
    ],
    ['a pause of 0 s', (client) => client.budget('p').pause({ for: '0s' }), ['for']],
    ['a note that is too long', (client) => client.budget('p').pause({ note: 'x'.repeat(201) }), ['note']],
    [
      'a restore with an option that does not exist',
      (client) => client.budget('p').restore({ inFlight: '3m' } as RestoreOptions),
      ['inFlight'],
    ],
  ];
  test.each(bad)('%s is refused before anything is sent', async (_what, order, fields) => {
    // No server listens there, so anything that was sent would fail with another error.
    const nowhere = Connection.lazy({ address: '127.0.0.1:1', interceptors: [] });
    const error = await order(new FollowUpClient({ client: new Client({ connection: nowhere }) })).catch(
      (thrown: unknown) => thrown,
    );
    await nowhere.close();
    expect(error).toBeInstanceOf(InvalidInputError);
    expect((error as InvalidInputError).issues.map(({ field }) => field)).toEqual(fields);
  });

  test('a reserve that the current limit does not allow is refused by the budget itself', async () => {
    const budget = stack.followUps.budget(newProject());
    await budget.setLimit({ limit: 5 });
    const error = await budget.setLimit({ reserve: 5 }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error).toMatchObject({ issues: [{ field: 'reserve', message: expect.stringContaining('limit 5') }] });
    expect(await budget.status()).toMatchObject({ limit: 5, reserve: 0 });
  });
});

test.concurrent(
  'a budget that an order starts has the documented defaults, or the settings of the client',
  async () => {
    const budget = stack.followUps.budget(newProject());
    expect(await budget.state()).toBe('none');
    expect(await budget.resume()).toMatchObject({ limit: 100, windowMs: 3_600_000, reserve: 0, used: 0 });
    const { client, taskQueue } = stack;
    const budgetSettings = { limit: 9, windowMs: 60_000, reserve: 2, marginMs: 0 };
    const other = new FollowUpClient({ client, taskQueue, budgetSettings }).budget(newProject());
    expect(await other.pause()).toMatchObject({ limit: 9, windowMs: 60_000, reserve: 2 });
  },
);

test.concurrent('audit lists the sends of the ledger, newest first', async () => {
  const projectId = newProject();
  const budget = stack.followUps.budget(projectId);
  expect(await budget.audit()).toEqual([]);
  const followUps = await start(projectId, 'interactive', 'a-1', 'a-2', 'a-3');
  await Promise.all(followUps.map((followUp) => followUp.result()));
  const sends = await budget.audit();
  const ledger = ledgerOf(projectId);
  expect(sends).toHaveLength(ledger.length);
  for (const send of sends) {
    const receivedAtMs = ledger.find(({ jobId }) => send.workflowId.includes(`/${jobId}/`))?.receivedAtMs ?? NaN;
    expect(send).toMatchObject({ sendNumber: 1, outcome: 'sent' });
    expect(Date.parse(send.grantedAt)).toBeLessThanOrEqual(receivedAtMs + 50);
    expect(Date.parse(send.settledAt ?? '')).toBeGreaterThanOrEqual(receivedAtMs - 50);
  }
  const granted = sends.map(({ grantedAt }) => Date.parse(grantedAt));
  expect(granted).toEqual([...granted].sort((a, b) => b - a));
});

test.concurrent(
  'watch shows the budget from before its first follow-up until after its restore, and ends at its abort signal',
  async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    const controller = new AbortController();
    const updates: BudgetUpdate[] = [];
    const watching = (async () => {
      for await (const update of budget.watch({ intervalMs: 50, signal: controller.signal })) updates.push(update);
    })();
    const sees = (what: string, matches: (update: BudgetUpdate) => boolean) =>
      eventually(what, () => updates.some(matches));
    await sees('no budget yet', ({ state, status }) => state === 'none' && !status);
    await stack.followUps.run({ projectId, jobId: 'a-1', prompt: 'x', ...FAST });
    await sees('a slot', ({ status }) => status?.used === 1);
    await budget.pause({ note: 'stop' });
    await sees('the pause', ({ status }) => status?.paused?.note === 'stop');
    await stack.client.workflow.getHandle(budget.workflowId).terminate();
    await sees('its end', ({ state, status }) => state === 'stopped' && status?.used === 1);
    await budget.restore();
    await eventually('that it runs again', () => updates.at(-1)?.state === 'running');
    controller.abort();
    await watching;
  },
);

test('orders, restore and watch report an unreachable server', async () => {
  const nowhere = Connection.lazy({ address: '127.0.0.1:1', interceptors: [] });
  const budget = new FollowUpClient({ client: new Client({ connection: nowhere }) }).budget('p');
  for (const order of [() => budget.pause(), () => budget.restore(), () => budget.watch().next()]) {
    await expect(order()).rejects.toThrow(TemporalUnreachableError);
  }
  await nowhere.close();
});

test.concurrent('without a worker, an order says so', async () => {
  const { client } = stack;
  const budget = new FollowUpClient({ client, taskQueue: `nobody-${randomUUID()}` }).budget(newProject());
  const error = await budget.setLimit({ limit: 5 }).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(WorkerUnavailableError);
  expect(error).toMatchObject({ reason: expect.stringContaining('no worker') });
});
