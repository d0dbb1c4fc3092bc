import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { InvalidInputError } from '../../src/client/index.js';
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
const sentTo = (projectId: string) => stack.simulator.ledger.filter((entry) => entry.projectId === projectId).length;

test('a plan shows budgets and waiting follow-ups, and sends, starts and creates nothing', async () => {
  const [id, busy, paused, fresh] = [newName(), newName(), newName(), newName()];
  await stack.followUps.budget(busy).setLimit({ limit: 1, window: '1h' });
  await stack.followUps.start({ ...item(busy, 'first'), key: 'k' });
  await eventually('its slot is used', async () => {
    const status = await stack.followUps.budget(busy).status();
    return status?.used === 1 && status.unsettled === 0;
  });
  const waiting = await stack.followUps.start(item(busy, 'waiting'));
  await eventually('it waits', async () => (await stack.followUps.budget(busy).status())?.waitingTotal === 1);
  await stack.followUps.budget(paused).pause({ note: 'release freeze' });
  const before = await stack.followUps.budget(busy).status();

  const items = [item(busy, 'a'), item(paused, 'b'), item(fresh, 'c'), item(fresh, 'd')];
  const plannedMs = Date.now();
  const plan = await stack.followUps.planBatch({ id, items });
  expect(plan).toEqual({
    ...{ batchId: id, total: 4, alreadyStarted: false, inputDiffers: false },
    projects: [
      {
        ...{ projectId: busy, toSend: 1, limit: 1, windowMs: HOUR_MS, freeSlots: 0, waiting: 1 },
        earliestEndAt: expect.any(String),
      },
      {
        ...{ projectId: paused, toSend: 1, limit: 100, windowMs: HOUR_MS, freeSlots: 100, waiting: 0 },
        blocked: { reasons: ['operator'], note: 'release freeze' },
      },
      {
        ...{ projectId: fresh, toSend: 2, limit: 100, windowMs: HOUR_MS, freeSlots: 100, waiting: 0 },
        earliestEndAt: expect.any(String),
      },
    ],
  });
  const [ofBusy = NaN, , ofFresh = NaN] = plan.projects.map(({ earliestEndAt }) => Date.parse(earliestEndAt ?? ''));
  // The only slot is free after an hour for the one that waits, and after another for the item.
  expect(ofBusy).toBeGreaterThan(plannedMs + 2 * HOUR_MS - 60_000);
  expect(ofBusy).toBeLessThan(Date.now() + 2 * HOUR_MS + 60_000);
  expect(ofFresh).toBeGreaterThanOrEqual(plannedMs);
  expect(ofFresh).toBeLessThanOrEqual(Date.now());

  await expect(stack.followUps.batch(id).describe()).rejects.toMatchObject({ type: 'BatchNotFound' });
  const newOne = stack.followUps.handle(`follow-up/${fresh}/c/${id}:2`);
  await expect(newOne.describe()).rejects.toMatchObject({ type: 'FollowUpNotFound' });
  expect(await stack.followUps.budget(fresh).state()).toBe('none');
  expect(await stack.followUps.budget(busy).status()).toEqual(before);
  expect([busy, paused, fresh].map(sentTo)).toEqual([1, 0, 0]);
  await waiting.cancel();
});

test('a pause with an end moves the earliest end there, and a stopped budget has none', async () => {
  const [id, paused, stopped] = [newName(), newName(), newName()];
  const { paused: pause } = await stack.followUps.budget(paused).pause({ for: '2h' });
  await stack.followUps.budget(stopped).setLimit({ limit: 10 });
  await stack.client.workflow.getHandle(`project-budget/${stopped}`).terminate();
  const plan = await stack.followUps.planBatch({ id, projectId: paused, prompt: 'x', jobIds: ['a', 'b'] });
  expect(plan).toMatchObject({
    projects: [{ blocked: { reasons: ['operator'], until: pause?.until }, earliestEndAt: pause?.until }],
    earliestEndAt: pause?.until,
  });
  const [project] = (await stack.followUps.planBatch({ id, items: [item(stopped, 'a')] })).projects;
  expect(project).toMatchObject({ limit: 10, blocked: { reasons: ['budget-stopped'] } });
  expect(project).not.toHaveProperty('earliestEndAt');
});

test('the batch lane has only the slots that the reserve leaves', async () => {
  const [id, projectId] = [newName(), newName()];
  await stack.followUps.budget(projectId).setLimit({ limit: 5, reserve: 3, window: '1h' });
  const input = { id, projectId, prompt: 'x', jobIds: ['a', 'b', 'c', 'd', 'e'] };
  const [ofBatch] = (await stack.followUps.planBatch(input)).projects;
  expect(ofBatch).toMatchObject({ limit: 5, freeSlots: 2 });
  // Two now, two after an hour, and one after two.
  expect(Date.parse(ofBatch?.earliestEndAt ?? '')).toBeGreaterThan(Date.now() + 2 * HOUR_MS - 60_000);
  const plan = await stack.followUps.planBatch({ ...input, defaults: { lane: 'interactive' } });
  expect(plan.projects[0]).toMatchObject({ freeSlots: 5 });
  expect(Date.parse(plan.earliestEndAt ?? '')).toBeLessThanOrEqual(Date.now());
});

test('a plan says whether its id was used, and whether with the same input', async () => {
  const [id, projectId] = [newName(), newName()];
  await stack.followUps.budget(projectId).pause();
  const input = { id, projectId, prompt: 'x', jobIds: ['a', 'b'] };
  const batch = await stack.followUps.startBatch(input);
  const projects = [{ toSend: 0 }];
  expect(await stack.followUps.planBatch(input)).toMatchObject({ alreadyStarted: true, inputDiffers: false, projects });
  const other = await stack.followUps.planBatch({ ...input, canary: 1 });
  expect(other).toMatchObject({ alreadyStarted: true, inputDiffers: true, projects });
  expect(other).not.toHaveProperty('earliestEndAt');
  await batch.cancel();
  await batch.result();
});

test('a list that was handed over in part is refused once the batch takes no more', async () => {
  const [id, projectId] = [newName(), newName()];
  await stack.followUps.budget(projectId).pause();
  const items = Array.from({ length: 600 }, (_, index) => item(projectId, `job-${index}`, 'x'.repeat(800)));
  const stop = new AbortController();
  const started = stack.followUps.startBatch({ id, items }, { signal: stop.signal, onHandedOver: () => stop.abort() });
  await expect(started).rejects.toThrow('abort');
  const batch = stack.followUps.batch(id);
  await batch.cancel();
  const { total } = await batch.result();
  expect(total).toBeLessThan(items.length);
  await expect(stack.followUps.startBatch({ id, items })).rejects.toThrow(
    `takes no more items: it has the first ${total} of 600, and the others were never added`,
  );
});

test('an invalid batch is refused, and its bad fields are named', async () => {
  const plan = stack.followUps.planBatch({ id: 'b', items: [], canary: 0 });
  await expect(plan).rejects.toThrow(InvalidInputError);
  await expect(plan).rejects.toThrow(/canary: /);
});
