import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { failureOf } from '../support/failure-of.js';
import { schemaCheck } from '../support/schema-check.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

/** Starts a workflow by its name on the wire, as a client in another language does. */
const start = (type: string, workflowId: string, input: unknown) =>
  stack.client.workflow.start(type, { workflowId, taskQueue: stack.taskQueue, args: [input] });

test.each([
  [
    'a list of items',
    (projectId: string) => ({
      items: ['a', 'gone'].map((jobId) => ({ projectId, jobId, prompt: 'Add tests.', lane: null, ...FAST })),
      maxOpen: null,
    }),
  ],
  [
    'one prompt for many jobs',
    (projectId: string) => ({ projectId, prompt: 'Add tests.', jobIds: ['a', 'gone'], defaults: FAST }),
  ],
])('a batch that another SDK starts with %s gives answers that match its JSON Schemas', async (_form, toInput) => {
  const projectId = `answers-${randomUUID().slice(0, 8)}`;
  stack.simulator.addJob({ projectId, jobId: 'a' });
  stack.simulator.addJob({ projectId, jobId: 'gone', status: 'archived' });
  const input = toInput(projectId);
  expect(schemaCheck('follow-up-batch-input')(input)).toEqual([]);
  const batch = await start('followUpBatch', `follow-up-batch/${projectId}`, input);
  const right = { status: schemaCheck('follow-up-batch-status'), items: schemaCheck('follow-up-batch-items') };
  expect(right.status(await batch.query('batchStatus'))).toEqual([]);
  expect(right.items(await batch.query('batchItems', { offset: 0, limit: 10 }))).toEqual([]);
  const result: unknown = await batch.result();
  expect(schemaCheck('follow-up-batch-result')(result)).toEqual([]);
  expect(result).toMatchObject({ total: 2, completed: 1, errors: 1, errorsByType: { JobArchived: 1 } });
  const status = await batch.query('batchStatus');
  expect(right.status(status)).toEqual([]);
  expect(status).toMatchObject({ ended: true, total: 2 });
  expect(right.items(await batch.query('batchItems'))).toEqual([]);
});

test.each([
  ['completed', {}, 'completed'],
  ['archived', { status: 'archived' }, 'not-sent'],
  ['failed', { behaviour: { outcome: 'failed' } }, 'job-failed'],
  ['missing', undefined, 'not-sent'],
] as const)('a follow-up of a job that is %s gives answers that match its JSON Schemas', async (name, job, state) => {
  const projectId = `answers-${randomUUID().slice(0, 8)}`;
  if (job) stack.simulator.addJob({ projectId, jobId: 'job', ...job });
  const input = { projectId, jobId: 'job', prompt: 'Add tests.', ...FAST };
  expect(schemaCheck('follow-up-input')(input)).toEqual([]);
  const handle = await start('followUp', `follow-up/${projectId}/job/k`, input);
  const isRight = schemaCheck('follow-up-progress');
  expect(isRight(await handle.query('progress'))).toEqual([]);
  if (state === 'not-sent') {
    const { type, message, ...details } = await failureOf(handle.result());
    expect({ type, message }).toEqual({
      type: name === 'missing' ? 'JobNotFound' : 'JobArchived',
      message: expect.any(String) as string,
    });
    expect(schemaCheck('follow-up-failure')(details)).toEqual([]);
  } else {
    expect(schemaCheck('follow-up-result')(await handle.result())).toEqual([]);
  }
  const ended = await handle.query('progress');
  expect(isRight(ended)).toEqual([]);
  expect(ended).toMatchObject({ state });
  expect(isRight({ ...(ended as object), state: 'unknown-state' })).not.toEqual([]);
});
