import { join } from 'node:path';
import { Connection, type WorkflowHandle } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { createActivities } from '../../examples/activity/activities.js';
import type { FollowUpInput } from '../../src/contract/index.js';
import { resetToTask } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, startStack } from '../support/stack.js';
import { makeNamespace } from '../worker/support.js';

const examples = join(import.meta.dirname, '..', '..', 'examples');
let stack: Stack;
let connection: NativeConnection;

beforeAll(async () => {
  const address = inject('temporalAddress');
  const client = await Connection.connect({ address });
  // The examples name the default task queue.
  const env = { TEMPORAL_NAMESPACE: await makeNamespace(client) };
  await client.close();
  stack = await startStack({ address, env, taskQueue: 'follow-ups' });
  connection = await NativeConnection.connect({ address });
});
afterAll(async () => {
  await connection.close();
  await stack.stop();
});

/** Starts a worker with the workflows of an example. They import the built package by its name. */
async function startUsersWorker(example: string) {
  const worker = await Worker.create({
    connection,
    namespace: stack.namespace,
    taskQueue: example,
    workflowsPath: join(examples, example, 'workflows.ts'),
    activities: createActivities(stack.followUps),
  });
  const ended = worker.run();
  const stop = () => {
    worker.shutdown();
    return ended;
  };
  return { worker, stop };
}

// One name for all: the project, its job, the workflow of the example, and so the key of its follow-up.
const addJob = (name: string, job = {}) => stack.simulator.addJob({ projectId: name, jobId: name, ...job });
const followUpOf = (name: string) => stack.followUps.handle(`follow-up/${name}/${name}/${name}`);
const messagesTo = (name: string) => stack.simulator.ledger.filter(({ jobId }) => jobId === name).length;
const prLinkOf = (name: string) => expect.stringContaining(`/${name}/${name}/pull/`) as string;

/** Starts a workflow of an example. */
async function start(workflowType: string, name: string, more: Partial<FollowUpInput> = {}): Promise<WorkflowHandle> {
  const input: FollowUpInput = { projectId: name, jobId: name, prompt: 'Add tests.', ...FAST, ...more };
  const taskQueue = workflowType === 'parentWorkflow' ? 'child-workflow' : 'activity';
  await stack.client.workflow.start(workflowType, { workflowId: name, taskQueue, args: [input] });
  return stack.client.workflow.getHandle(name);
}

/** Starts a workflow whose follow-up then waits for its job, which never ends, or until its project is resumed. */
async function startUntil(state: 'polling' | 'blocked', workflowType: string, name: string): Promise<WorkflowHandle> {
  addJob(name, { behaviour: { neverEnds: state === 'polling' } });
  if (state === 'blocked') await stack.followUps.budget(name).pause();
  const workflow = await start(workflowType, name);
  await eventually(`its follow-up is ${state}`, async () => (await followUpOf(name).describe()).state === state);
  return workflow;
}

describe('a follow-up as a child', () => {
  let own: Awaited<ReturnType<typeof startUsersWorker>>;
  beforeAll(async () => {
    own = await startUsersWorker('child-workflow');
  });
  afterAll(() => own.stop());

  test('gives its parent the result, and an error that sends nothing if the key was used', async () => {
    addJob('once');
    const parent = await start('parentWorkflow', 'once');
    expect(await parent.result()).toEqual({ status: 'completed', prLink: prLinkOf('once') });
    const again = await start('parentWorkflow', 'once');
    await expect(again.result()).rejects.toMatchObject({ cause: { message: 'Workflow execution already started' } });
    expect(messagesTo('once')).toBe(1);
  });

  test('gives its parent the type of its failure, and says that nothing was delivered', async () => {
    addJob('archived', { status: 'archived' });
    const parent = await start('parentWorkflow', 'archived');
    expect(await parent.result()).toEqual({ failure: 'JobArchived', delivered: 'no' });
  });

  test('ends as Canceled with its parent if that is cancelled before the send, and sends nothing', async () => {
    const parent = await startUntil('blocked', 'parentWorkflow', 'early');
    await parent.cancel();
    await expect(parent.result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
    expect((await parent.describe()).status.name).toBe('CANCELLED');
    expect((await followUpOf('early').describe()).status).toBe('cancelled');
    expect(messagesTo('early')).toBe(0);
  });

  test('reports the delivery to a parent that is cancelled after the send', async () => {
    const parent = await startUntil('polling', 'parentWorkflow', 'late');
    await parent.cancel();
    expect(await parent.result()).toEqual({ failure: 'Cancelled', delivered: 'yes' });
  });

  test('goes on to its end when its parent is terminated', async () => {
    const parent = await startUntil('blocked', 'parentWorkflow', 'alone');
    await parent.terminate();
    await stack.followUps.budget('alone').resume();
    expect(await followUpOf('alone').result()).toMatchObject({ status: 'completed', prLink: prLinkOf('alone') });
  });

  test('gives its result to a parent that was reset after the start, but is not cancelled with that parent', async () => {
    const parent = await startUntil('polling', 'parentWorkflow', 'reset');
    // Its second task comes when the child has started.
    await reset(parent, 1);
    await parent.cancel();
    await eventually('the cancel did not arrive', async () => {
      const { events } = await parent.fetchHistory();
      return events?.some((event) => event.requestCancelExternalWorkflowExecutionFailedEventAttributes);
    });
    expect((await followUpOf('reset').describe()).state).toBe('polling');
    await followUpOf('reset').cancel();
    expect(await parent.result()).toEqual({ failure: 'Cancelled', delivered: 'yes' });
  });

  test('is not sent again by a parent that was reset to before the start: that parent fails', async () => {
    const parent = await startUntil('polling', 'parentWorkflow', 'reset-all');
    await reset(parent, 0);
    await expect(parent.result()).rejects.toMatchObject({ cause: { message: 'Workflow execution already started' } });
    expect([(await followUpOf('reset-all').describe()).state, messagesTo('reset-all')]).toEqual(['polling', 1]);
  });
});

/** Resets a workflow to the end of its first or second workflow task. */
async function reset({ workflowId }: WorkflowHandle, task: 0 | 1): Promise<void> {
  const completed = await eventually('that workflow task has ended', async () => {
    const { events } = await stack.client.workflow.getHandle(workflowId).fetchHistory();
    return events?.filter((event) => event.workflowTaskCompletedEventAttributes)[task];
  });
  await resetToTask(stack.client, { workflowId, runId: '' }, completed);
}

describe('an activity', () => {
  let own: Awaited<ReturnType<typeof startUsersWorker>>;
  beforeAll(async () => {
    own = await startUsersWorker('activity');
  });
  afterAll(() => own.stop());

  test('returns the result of the follow-up, and that of the first one for a used key', async () => {
    addJob('found');
    const results = [];
    for (const _ of [1, 2]) results.push(await (await start('callerWorkflow', 'found')).result());
    expect(results).toEqual(Array(2).fill({ status: 'completed', prLink: prLinkOf('found') }));
    expect(messagesTo('found')).toBe(1);
  });

  test.each([
    ['JobArchived', 'gone', {}, { type: 'JobArchived', details: [{ delivered: 'no' }] }],
    [
      'InvalidInput',
      'wrong',
      { prompt: '' },
      { type: 'InvalidInput', details: [{ delivered: 'no', issues: [{ field: 'prompt' }] }] },
    ],
  ])('fails with the type of the follow-up’s failure: %s', async (_type, name, more, failure) => {
    addJob(name, { status: 'archived' });
    const caller = await start('callerWorkflow', name, more);
    await expect(caller.result()).rejects.toMatchObject({ cause: { cause: failure } });
  });

  test('ends as Canceled with its follow-up if its workflow is cancelled before the send, and sends nothing', async () => {
    const caller = await startUntil('blocked', 'callerWorkflow', 'unsent');
    await caller.cancel();
    await expect(caller.result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
    expect((await caller.describe()).status.name).toBe('CANCELLED');
    expect((await followUpOf('unsent').describe()).status).toBe('cancelled');
    expect(messagesTo('unsent')).toBe(0);
  });

  test('reports the delivery to a workflow that is cancelled after the send', async () => {
    const caller = await startUntil('polling', 'callerWorkflow', 'sent');
    await caller.cancel();
    const failure = { type: 'Cancelled', details: [{ delivered: 'yes' }] };
    await expect(caller.result()).rejects.toMatchObject({ cause: { cause: failure } });
  });

  test('waits on another worker when its own stops, and the follow-up goes on', async () => {
    const caller = await startUntil('blocked', 'callerWorkflow', 'moved');
    await own.stop();
    expect((await followUpOf('moved').describe()).status).toBe('running');
    own = await startUsersWorker('activity');
    await stack.followUps.budget('moved').resume();
    expect(await caller.result()).toEqual({ status: 'completed', prLink: prLinkOf('moved') });
  });

  test('leaves the follow-up alone when its workflow is terminated', async () => {
    const caller = await startUntil('blocked', 'callerWorkflow', 'left');
    await caller.terminate();
    await eventually('the activity has ended', () => own.worker.getStatus().numInFlightActivities === 0);
    await stack.followUps.budget('left').resume();
    expect(await followUpOf('left').result()).toMatchObject({ status: 'completed', prLink: prLinkOf('left') });
  });
});
