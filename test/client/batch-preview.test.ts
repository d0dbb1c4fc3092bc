import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, startStack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress'), simulator: { autoCreate: true } });
});
afterAll(() => stack.stop());

const newName = () => `plan-${randomUUID().slice(0, 8)}`;
const item = (projectId: string, jobId: string, prompt = 'Add tests.') => ({ projectId, jobId, prompt, ...FAST });

test('a plan shows the budgets and who waits, and sends, starts and creates nothing', async () => {
  const { followUps, client, simulator } = stack;
  const [id, busy, paused, stopped, fresh] = [newName(), newName(), newName(), newName(), newName()];
  await followUps.budget(busy).setLimit({ limit: 1, window: '1h' });
  await followUps.budget(busy).take({ count: 1, key: 'k' });
  const waiting = await followUps.start(item(busy, 'waiting'));
  await eventually('it waits', async () => (await followUps.budget(busy).status())?.waitingTotal === 1);
  await followUps.budget(paused).pause({ note: 'release freeze' });
  await followUps.budget(stopped).setLimit({ limit: 10 });
  await client.workflow.getHandle(`project-budget/${stopped}`).terminate();
  const before = await followUps.budget(busy).status();

  const items = [busy, paused, stopped, fresh, fresh].map((projectId, at) => item(projectId, `job-${at}`));
  const plan = await followUps.planBatch({ id, items });
  expect(plan).toMatchObject({ batchId: id, total: 5, alreadyStarted: false, inputDiffers: false });
  expect(plan.projects).toEqual([
    { projectId: busy, toSend: 1, state: 'running', status: before },
    {
      ...{ projectId: paused, toSend: 1, state: 'running' },
      status: expect.objectContaining({ paused: expect.objectContaining({ note: 'release freeze' }) }),
    },
    {
      ...{ projectId: stopped, toSend: 1, state: 'stopped', status: expect.objectContaining({ limit: 10 }) },
      trouble: expect.objectContaining({ kind: 'closed' }),
    },
    { projectId: fresh, toSend: 2, state: 'none' },
  ]);

  await expect(followUps.batch(id).describe()).rejects.toMatchObject({ type: 'BatchNotFound' });
  expect(await followUps.budget(fresh).state()).toBe('none');
  expect(await followUps.budget(busy).status()).toEqual(before);
  const sent = simulator.ledger.filter(({ projectId }) => [busy, paused, stopped, fresh].includes(projectId));
  expect(sent).toEqual([]);
  await waiting.cancel();
});

test('a plan says whether its id was used; a batch that has ended refuses the rest of its list', async () => {
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
  const batch = followUps.batch(id);
  await batch.cancel();
  const { total } = await batch.result();
  await expect(followUps.startBatch({ id, items })).rejects.toThrow(
    `accepts no more items: it has the first ${total} of 3, and the others were never added`,
  );
  await expect(followUps.planBatch({ id: 'b', items: [], canary: 0 })).rejects.toThrow(/canary: /);
});
