import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { addItemsUpdate, sealUpdate } from '../../src/contract/index.js';
import { makeItems, startBatch } from '../support/batch.js';
import { eventually } from '../support/eventually.js';
import { type Project, useStack } from '../support/project.js';
import { schemaCheck } from '../support/schema-check.js';
import { FAST } from '../support/stack.js';

const tested = useStack();

/** A project, and how to start a batch with its id. */
function newProject(name: string) {
  const project = tested.newProject(`${name}-${randomUUID().slice(0, 8)}`);
  const start = (input: unknown) => startBatch(tested.stack, project.id, input);
  const items = (count: number, extra: object = FAST) => makeItems(tested.stack, [project.id], count, extra);
  return { project, projectId: project.id, start, items };
}
const promptsOf = (project: Project) => project.ledger.map(({ prompt }) => prompt);

describe.concurrent('a batch', () => {
  const check = Object.fromEntries(
    ['input', 'status', 'items', 'result'].map((name) => [name, schemaCheck(`follow-up-batch-${name}`)]),
  );

  test('sends one prompt to many jobs; an unknown job and an invalid id are errors of their items only', async () => {
    const { project, projectId, start, items } = newProject('jobs');
    items(4);
    const jobIds = ['job-0', 'job-1', 'unknown', 'no id', 7, 'job-2', 'job-3'];
    const batch = await start({ projectId, prompt: 'same', jobIds, defaults: FAST });
    const result = await batch.result();
    expect(result).toMatchObject({ total: 7, completed: 4, errors: 3, unknown: 0 });
    expect(result.errorsByType).toEqual({ JobNotFound: 1, InvalidInput: 2 });
    expect(result.items[3]).toMatchObject({
      jobId: '',
      workflowId: '',
      error: { type: 'InvalidInput', message: expect.stringContaining('given "no id"'), delivered: 'no' },
    });
    expect(result.items[0]).toMatchObject({
      workflowId: `follow-up/${projectId}/job-0/${projectId}:0`,
      status: 'completed',
      prLink: expect.stringContaining('https://'),
    });
    expect(await batch.items()).toEqual(result.items);
    expect(promptsOf(project)).toEqual(Array<string>(4).fill('same'));
    await eventually('every follow-up is found by its batch', async () => {
      const found = [];
      for await (const { batchId } of tested.stack.followUps.list({ batch: projectId })) found.push(batchId);
      return found.length === 5;
    });
  });

  test.each<[string, (projectId: string) => object]>([
    [
      'a list of items',
      (projectId) => ({
        items: ['a', 'gone'].map((jobId) => ({ projectId, jobId, prompt: 'x', lane: null, ...FAST })),
        maxOpen: null,
      }),
    ],
    ['one prompt', (projectId) => ({ projectId, prompt: 'x', jobIds: ['a', 'gone'], defaults: FAST })],
  ])('gives answers that match its JSON Schemas if another SDK starts it with %s', async (_, toInput) => {
    const { project, projectId, start } = newProject('answers');
    project.addJob('a');
    project.addJob('gone', { status: 'archived' });
    expect(check['input']?.(toInput(projectId))).toEqual([]);
    const { handle } = await start(toInput(projectId));
    const result: unknown = await handle.result();
    expect(check['result']?.(result)).toEqual([]);
    expect(result).toMatchObject({ total: 2, completed: 1, errors: 1, errorsByType: { JobArchived: 1 } });
    const status = await handle.query('batchStatus');
    expect(check['status']?.(status)).toEqual([]);
    expect(status).toMatchObject({ ended: true, total: 2 });
    expect(check['items']?.(await handle.query('batchItems'))).toEqual([]);
  });

  test('accepts items in pieces until it is sealed, and counts a repeated piece once', async () => {
    const { project, start, items: make } = newProject('open');
    const items = make(5);
    const batch = await start({ items: items.slice(0, 1), open: true });
    const add = (args: [unknown[], number?]) => batch.handle.executeUpdate(addItemsUpdate, { args });
    expect(await add([items.slice(1, 3), 1])).toEqual({ total: 3 });
    expect(await add([items.slice(1, 3), 1])).toEqual({ total: 3 });
    await expect(add([items.slice(4), 4])).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
    await expect(add([[]])).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
    expect(await add([items.slice(2, 4), 2])).toEqual({ total: 4 });
    await eventually('all of it has ended', async () => (await batch.status()).completed === 4);
    const status = await batch.status();
    expect(status).toMatchObject({ sealed: false, ended: false, open: 0, waitingToStart: 0 });
    expect(check['status']?.(status)).toEqual([]);
    expect(check['items']?.(await batch.handle.query('batchItems', { offset: 0, limit: 10 }))).toEqual([]);
    expect(await add([items.slice(4)])).toEqual({ total: 5 });
    const seal = (total: number) => batch.handle.executeUpdate<object, [number]>(sealUpdate.name, { args: [total] });
    await expect(seal(4)).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
    expect(await seal(5)).toEqual({ total: 5 });
    expect(await add([items.slice(3), 3])).toEqual({ total: 5 });
    await expect(add([items])).rejects.toMatchObject({ cause: { message: expect.stringContaining('sealed') } });
    expect(await batch.result()).toMatchObject({ total: 5, completed: 5 });
    expect(project.ledger).toHaveLength(5);
  });

  test('withdraws what it has not sent if it is cancelled, and says for each item whether it was delivered', async () => {
    const { project, start, items } = newProject('cancel');
    await project.budget.setLimit({ limit: 3 });
    const { handle, status, result: ended } = await start({ items: items(12), maxOpen: 8 });
    await project.deliveries(3);
    await handle.cancel();
    await eventually('it has ended', async () => {
      const state = await status();
      if (state.ended) return true;
      const open = [];
      for await (const each of tested.stack.followUps.list({ batch: project.id })) open.push(each);
      throw new Error(JSON.stringify({ state, open }));
    });
    const result = await ended();
    expect(result).toMatchObject({ total: 12, cancelled: true });
    expect(result.items).toHaveLength(12);
    for (const { jobId, status, error } of result.items) {
      const sent = project.delivered.filter((each) => each === jobId).length;
      const delivered = status ? 'yes' : error?.delivered;
      // On a busy machine, the cancel may overtake a send, whose delivery is then unknown.
      if (delivered === 'unknown') expect(sent).toBeLessThanOrEqual(1);
      else expect({ jobId, delivered, sent }).toEqual({ jobId, delivered, sent: delivered === 'yes' ? 1 : 0 });
      if (error) expect(error.type).toBe('Cancelled');
    }
    expect(result.errors).toBeGreaterThanOrEqual(9);
  });

  test('leaves the reserve of the budget to an interactive follow-up, and has a lower priority in Temporal', async () => {
    const { project, start, items } = newProject('lanes');
    // No slot comes free until the limit rises.
    await project.budget.setLimit({ limit: 3, reserve: 1 });
    const batch = await start({ items: items(4) });
    await project.waiting(2);
    await eventually('all sends are settled', async () => (await project.status()).underWay === 0);
    expect(await project.status()).toMatchObject({ used: 2, waitingInBatchLane: 2 });
    const urgent = await project.start('urgent');
    await project.deliveries(3);
    expect(project.delivered.at(-1)).toBe('urgent');
    const priorityOf = async (workflow: { workflowId: string }) =>
      (await project.workflow(workflow).describe()).raw.workflowExecutionInfo?.priority?.priorityKey ?? 3;
    const [waiting] = (await project.status()).waiting;
    expect(await priorityOf(waiting!)).toBeGreaterThan(await priorityOf(urgent));
    await project.budget.setLimit({ limit: 10, reserve: 0 });
    expect(await batch.result()).toMatchObject({ completed: 4 });
    await urgent.result();
  });

  test('reports a terminated follow-up, and an item whose follow-up was started before, as errors', async () => {
    const { project, projectId, start, items: make } = newProject('dead');
    const items = make(5);
    await project.budget.setLimit({ limit: 4 });
    const used = await tested.stack.followUps.run({ ...items[0]!, key: `${projectId}:0` });
    expect(used.status).toBe('completed');
    const batch = await start({ items });
    const last = await eventually('one waits for the budget', async () => (await project.status()).waiting[0]);
    await project.workflow(last).terminate('by hand');
    const { items: ended, ...result } = await batch.result();
    expect(result).toMatchObject({ completed: 3, errors: 2, errorsByType: { NotStarted: 1, Terminated: 1 } });
    expect(ended[0]?.error).toMatchObject({ type: 'NotStarted', delivered: 'unknown' });
    expect(ended.find(({ workflowId }) => workflowId === last.workflowId)?.error).toMatchObject({ type: 'Terminated' });
    expect(project.ledger).toHaveLength(4);
  });

  test.each([
    ['is missing', undefined, 'Invalid input'],
    ['has a bad default', { items: [{}], defaults: { settleTime: 'soon' } }, 'defaults.settleTime'],
  ])('is refused if its input %s', async (_, input, field) => {
    const batch = await newProject('refused').start(input);
    await expect(batch.result()).rejects.toMatchObject({
      cause: { type: 'InvalidInput', message: expect.stringContaining(field) },
    });
    const failed = tested.stack.followUps.batch(batch.batchId).status();
    await expect(failed).rejects.toMatchObject({ name: 'BatchFailedError', type: 'InvalidInput' });
    await expect(failed).rejects.not.toThrow('its follow-ups continue');
  });

  test('says how many items it has if it is cancelled while it starts the parts of a piece', async () => {
    const { project, start, items } = newProject('cancelled');
    await project.budget.pause();
    const { handle, status, result } = await start({ items: [], open: true, maxOpen: 1 });
    // Their jobs exist: a follow-up that starts before the cancel waits for the budget.
    const answer = handle.executeUpdate(addItemsUpdate, { args: [items(1_500, {})] });
    await eventually('it has the items', async () => (await status()).total > 0);
    await handle.cancel();
    expect(await answer).toEqual({ total: 1_500 });
    expect(await result()).toMatchObject({ total: 1_500, errorsByType: { Cancelled: 1_500 } });
  });
});
