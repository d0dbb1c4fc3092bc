import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const HOUR_MS = 3_600_000;
let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress'), simulator: { autoCreate: true } });
});
afterAll(() => stack.stop());

const newName = () => `plan-${randomUUID().slice(0, 8)}`;
const item = (projectId: string, jobId: string, prompt = 'Add tests.') => ({ projectId, jobId, prompt, ...FAST });

test('a plan shows budgets and what waits, and sends, starts and creates nothing', async () => {
  const { followUps, client, simulator } = stack;
  const [id, busy, paused, ending, stopped, fresh] = [newName(), newName(), newName(), newName(), newName(), newName()];
  await followUps.budget(busy).setLimit({ limit: 1, window: '1h' });
  await followUps.budget(busy).take({ count: 1, key: 'k' });
  const waiting = await followUps.start(item(busy, 'waiting'));
  await eventually('it waits', async () => (await followUps.budget(busy).status())?.waitingTotal === 1);
  await followUps.budget(paused).pause({ note: 'release freeze' });
  const { paused: pause } = await followUps.budget(ending).pause({ for: '2h' });
  await followUps.budget(stopped).setLimit({ limit: 10 });
  await client.workflow.getHandle(`project-budget/${stopped}`).terminate();
  const before = await followUps.budget(busy).status();

  const items = [busy, paused, ending, stopped, fresh, fresh].map((projectId, at) => item(projectId, `job-${at}`));
  const plannedMs = Date.now();
  const plan = await followUps.planBatch({ id, items });
  const usual = { toSend: 1, limit: 100, windowMs: HOUR_MS, freeSlots: 100, waiting: 0 };
  const until = pause?.until;
  const projects = [
    { ...usual, projectId: busy, limit: 1, freeSlots: 0, waiting: 1, earliestEndAt: expect.any(String) },
    { ...usual, projectId: paused, blocked: { reasons: ['operator'], note: 'release freeze' } },
    { ...usual, projectId: ending, blocked: { reasons: ['operator'], until }, earliestEndAt: until },
    { ...usual, projectId: stopped, limit: 10, freeSlots: 10, blocked: { reasons: ['budget-stopped'] } },
    { ...usual, projectId: fresh, toSend: 2, earliestEndAt: expect.any(String) },
  ];
  expect(plan).toEqual({ batchId: id, total: 6, alreadyStarted: false, inputDiffers: false, projects });
  const endMs = (index: number) => Date.parse(plan.projects[index]?.earliestEndAt ?? '');
  // The only slot is free after an hour for the one that waits, and after another for the item.
  expect(endMs(0)).toBeGreaterThan(plannedMs + 2 * HOUR_MS - 600_000);
  expect(endMs(0)).toBeLessThan(Date.now() + 2 * HOUR_MS + 600_000);
  expect(endMs(4)).toBeGreaterThanOrEqual(plannedMs);
  expect(endMs(4)).toBeLessThanOrEqual(Date.now());

  await expect(followUps.batch(id).describe()).rejects.toMatchObject({ type: 'BatchNotFound' });
  expect(await followUps.budget(fresh).state()).toBe('none');
  expect(await followUps.budget(busy).status()).toEqual(before);
  expect(simulator.ledger.filter(({ projectId }) => projects.some((each) => each.projectId === projectId))).toEqual([]);
  await waiting.cancel();
});

test('the batch lane has only the slots that the reserve leaves', async () => {
  const [id, projectId] = [newName(), newName()];
  await stack.followUps.budget(projectId).setLimit({ limit: 5, reserve: 3, window: '1h' });
  const input = { id, projectId, prompt: 'x', jobIds: ['a', 'b', 'c', 'd', 'e'] };
  const plan = await stack.followUps.planBatch(input);
  expect(plan.projects).toMatchObject([{ limit: 5, freeSlots: 2, earliestEndAt: plan.earliestEndAt }]);
  // Two now, two after an hour, and one after two.
  expect(Date.parse(plan.earliestEndAt ?? '')).toBeGreaterThan(Date.now() + 2 * HOUR_MS - 600_000);
  const interactive = await stack.followUps.planBatch({ ...input, defaults: { lane: 'interactive' } });
  expect(interactive.projects).toMatchObject([{ freeSlots: 5 }]);
  expect(Date.parse(interactive.earliestEndAt ?? '')).toBeLessThanOrEqual(Date.now());
});

test('a plan says whether its id was used; a list that was handed over in part is refused after the end', async () => {
  const [id, projectId] = [newName(), newName()];
  const { followUps } = stack;
  await followUps.budget(projectId).pause();
  const items = ['a', 'b', 'c'].map((jobId) => item(projectId, jobId, 'x'.repeat(200_000)));
  const stop = new AbortController();
  const started = followUps.startBatch({ id, items }, { signal: stop.signal, onHandedOver: () => stop.abort() });
  await expect(started).rejects.toThrow('abort');
  const projects = [{ projectId, toSend: 0 }];
  const used = { alreadyStarted: true, inputDiffers: false, projects };
  expect(await followUps.planBatch({ id, items })).toMatchObject(used);
  const other = await followUps.planBatch({ id, items, canary: 1 });
  expect(other).toMatchObject({ ...used, inputDiffers: true });
  expect(other).not.toHaveProperty('earliestEndAt');
  const batch = followUps.batch(id);
  await batch.cancel();
  const { total } = await batch.result();
  await expect(followUps.startBatch({ id, items })).rejects.toThrow(
    `accepts no more items: it has the first ${total} of 3, and the others were never added`,
  );
  await expect(followUps.planBatch({ id: 'b', items: [], canary: 0 })).rejects.toThrow(/canary: /);
});
