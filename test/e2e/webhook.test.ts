import { randomUUID } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Webhook as Verifier } from 'standardwebhooks';
import { afterAll, expect, test } from 'vitest';
import { followUpBatchWorkflowId, WorkflowType } from '../../src/contract/index.js';
import { webhookWorkflowId } from '../../src/protocol/index.js';
import { makeItems, startBatch } from '../support/batch.js';
import { resetWorkflow } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { useStack } from '../support/project.js';
import { FAST } from '../support/stack.js';
import { newWebhookSecret, type ReceivedWebhook, startWebhookReceiver } from '../support/webhook-receiver.js';

const [secret, nextSecret] = [newWebhookSecret(), newWebhookSecret()];

/** Answers by path; a path with several gives the last one again and again. */
const responses: Record<string, number[]> = { '/gone': [410], '/moved': [302, 410], '/down': [503, 500, 200] };
const { received, url, close } = await startWebhookReceiver(({ path }) => {
  const [status = 204, ...rest] = responses[path] ?? [];
  if (rest.length > 0) responses[path] = rest;
  return status;
});
afterAll(close);

const names = ['ci', 'audit', 'gone', 'moved', 'down'];
const targets = Object.fromEntries(
  names.map((name) => [name, { url: url(`/${name}`), secrets: [secret, nextSecret] }]),
);
// Nothing listens there.
const away = { url: 'http://127.0.0.1:1/private-path', secrets: [secret] };
const file = join(mkdtempSync(join(tmpdir(), 'webhooks-')), 'webhooks.json');
const writeTargets = (more: object) => writeFileSync(file, JSON.stringify({ ...targets, away, ...more }));
writeTargets({});
const tested = useStack({ env: { FOLLOW_UP_WEBHOOKS_FILE: file } });

/** What a target has received about a workflow. */
function receivedBy(name: string, workflowId: string): ReceivedWebhook[] {
  return received.filter(({ path, body }) => path === `/${name}` && body.data.workflowId === workflowId);
}
const receives = (name: string, { workflowId }: { workflowId: string }, count = 1) =>
  eventually(`${name} receives the end of ${workflowId}`, () => {
    const webhooks = receivedBy(name, workflowId);
    if (webhooks.length < count) throw new Error(`it has received ${JSON.stringify(received.map(({ body }) => body))}`);
    return webhooks;
  });

/** How many webhooks a workflow did not start because they had been started before. */
async function refusedStarts({ workflowId }: { workflowId: string }): Promise<number> {
  const { events = [] } = await tested.stack.client.workflow.getHandle(workflowId).fetchHistory();
  return (events ?? []).filter((event) => event.startChildWorkflowExecutionFailedEventAttributes).length;
}

test('the end of a follow-up reaches each target that it names, signed with both secrets', async () => {
  const project = tested.newProject();
  const followUp = await project.start('job', { prompt: 'a private message', notify: ['ci', 'audit', 'ci'] });
  const { prLink } = await followUp.result();
  const [webhook] = await receives('ci', followUp);
  const [same] = await receives('audit', followUp);
  expect(webhook?.body).toEqual({
    type: 'follow-up.ended',
    timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
    data: {
      workflowId: followUp.workflowId,
      projectId: project.id,
      jobId: 'job',
      state: 'completed',
      status: 'completed',
      prLink,
      delivered: 'yes',
    },
  });
  expect(same?.id).toBe(webhook?.id);
  for (const key of [secret, nextSecret]) {
    expect(new Verifier(key).verify(webhook!.text, webhook!.headers)).toEqual(webhook!.body);
  }
  expect(() => new Verifier(newWebhookSecret()).verify(webhook!.text, webhook!.headers)).toThrow('match');
  expect(receivedBy('ci', followUp.workflowId)).toHaveLength(1);
  expect(JSON.stringify(received)).not.toContain('a private message');
});

test('follow-ups without a result report why, and whether the message arrived', async () => {
  const project = tested.newProject();
  project.addJob('gone', { status: 'archived' });
  await project.budget.pause();
  const [archived, cancelled] = await Promise.all([
    project.start('gone', { notify: ['ci'] }),
    project.start('waits', { notify: ['ci'] }),
  ]);
  await project.waiting(1);
  await cancelled.cancel();
  expect((await receives('ci', archived))[0]?.body.data).toMatchObject({
    state: 'not-sent',
    delivered: 'no',
    failure: 'JobArchived',
  });
  expect((await receives('ci', cancelled))[0]?.body.data).toMatchObject({
    state: 'cancelled',
    delivered: 'no',
    failure: 'Cancelled',
  });
});

test('a follow-up with an unknown target is refused before its send, and its known targets receive the refusal', async () => {
  const project = tested.newProject();
  const followUp = await project.start('job', { notify: ['ci', 'nobody'] });
  await expect(followUp.result()).rejects.toMatchObject({
    type: 'InvalidInput',
    message: expect.stringContaining(
      `notify: must be one of the workers' webhooks: ${names.join(', ')}, away (given "nobody")`,
    ),
  });
  expect((await receives('ci', followUp))[0]?.body.data).toMatchObject({ delivered: 'no', failure: 'InvalidInput' });
  const batch = await startBatch(tested.stack, project.id, { items: [{}], notify: ['nobody'] });
  await expect(batch.result()).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
  expect(project.ledger).toEqual([]);
});

test('a batch reports with counts that it is held and that it has ended, and its items report to their own targets', async () => {
  const project = tested.newProject();
  const items = makeItems(tested.stack, [project.id], 3, FAST);
  const input = { items, canary: 1, notify: ['ci'], defaults: { notify: ['audit'] } };
  const batch = await startBatch(tested.stack, project.id, input);
  const workflow = { workflowId: followUpBatchWorkflowId({ batchId: project.id }) };
  const [held] = await receives('ci', workflow);
  expect(held?.body).toMatchObject({
    type: 'batch.held',
    data: { batchId: project.id, hold: { name: 'canary' }, total: 3, completed: 1, waitingToStart: 2 },
  });
  await tested.stack.followUps.batch(project.id).continue();
  await batch.result();
  const webhooks = await receives('ci', workflow, 2);
  expect(webhooks.map(({ body }) => body.type)).toEqual(['batch.held', 'batch.ended']);
  expect(webhooks[1]?.body.data).toEqual({
    workflowId: workflow.workflowId,
    batchId: project.id,
    total: 3,
    completed: 3,
    archived: 0,
    failed: 0,
    errors: 0,
    unknown: 0,
    errorsByType: {},
  });
  const [first] = await batch.items();
  expect((await receives('audit', first!))[0]?.body.data).toMatchObject({ batchId: project.id, status: 'completed' });
});

test('a receiver that is down gets the webhook later, under the same id, and the result does not wait for it', async () => {
  const project = tested.newProject();
  const followUp = await project.start('job', { notify: ['down'] });
  expect(await followUp.result()).toMatchObject({ status: 'completed' });
  const webhooks = await receives('down', followUp, 3);
  expect(new Set(webhooks.map(({ id }) => id)).size).toBe(1);
  expect(new Set(webhooks.map(({ text }) => text)).size).toBe(1);
});

test('Temporal shows why a receiver does not answer, but not where it is', async () => {
  const project = tested.newProject();
  const followUp = await project.start('job', { notify: ['away'] });
  await followUp.result();
  const { client } = tested.stack;
  const failure = await eventually('an attempt has failed', async () => {
    const { events } = await client.workflow.getHandle(followUp.workflowId).fetchHistory();
    const [child] = (events ?? []).flatMap((event) => event.childWorkflowExecutionStartedEventAttributes ?? []);
    const { raw } = await client.workflow.getHandle(child!.workflowExecution!.workflowId!).describe();
    return raw.pendingActivities?.[0]?.lastFailure;
  });
  expect(failure.message).toMatch(/^away does not answer: ECONNREFUSED \(attempt \d+\)$/);
  expect(JSON.stringify(failure)).not.toMatch(/127\.0\.0\.1|private-path/);
});

test('a redirect is not followed, and a receiver that answers 410 shows in doctor until the webhook is sent again', async () => {
  const project = tested.newProject();
  const followUp = await project.start('job', { notify: ['moved', 'gone'] });
  const [webhook] = await receives('gone', followUp);
  await receives('moved', followUp, 2);
  const { id } = webhook!;
  const gone = webhookWorkflowId({ target: 'gone', id });
  const moved = webhookWorkflowId({ target: 'moved', id });
  // The doctor looks at the whole namespace, and other test files have failed webhooks in it, too.
  const troubles = async () => {
    const { troubles: all } = await tested.stack.followUps.health();
    const own = all.filter(({ workflowId }) => [gone, moved].includes(workflowId));
    return Object.fromEntries(own.map(({ workflowId, kind, what }) => [workflowId, { kind, what }]));
  };
  await expect.poll(troubles).toEqual({
    [gone]: { kind: 'undelivered', what: 'was not delivered: gone answers HTTP 410 (attempt 1)' },
    [moved]: { kind: 'undelivered', what: 'was not delivered: moved answers HTTP 410 (attempt 2)' },
  });
  expect(received.map(({ path }) => path)).not.toContain('/elsewhere');
  responses['/gone'] = responses['/moved'] = [200];
  for (const workflowId of [gone, moved]) await resetWorkflow(tested.stack.client, workflowId, 'first');
  const [, goneAgain] = await receives('gone', followUp, 2);
  const [, , movedAgain] = await receives('moved', followUp, 3);
  expect([goneAgain?.id, movedAgain?.id]).toEqual([id, id]);
  await expect.poll(troubles).toEqual({});
});

test('an end that a reset repeats is reported once, and no other client can have a webhook signed', async () => {
  const project = tested.newProject();
  const followUp = await project.start('job', { notify: ['ci'] });
  await followUp.result();
  const [webhook] = await receives('ci', followUp);
  const { client, taskQueue } = tested.stack;
  // The task after which it has started the webhook.
  await resetWorkflow(client, followUp.workflowId, (tasks) => tasks.at(-2));
  await followUp.result();
  expect(await refusedStarts(followUp)).toBe(1);
  const order = { target: 'ci', id: 'forged', body: webhook!.body };
  const forged = client.workflow.execute(WorkflowType.followUpWebhook, {
    taskQueue,
    workflowId: randomUUID(),
    args: [order],
  });
  await expect(forged).rejects.toMatchObject({ cause: { message: expect.stringContaining('only a follow-up') } });
  expect(receivedBy('ci', followUp.workflowId)).toHaveLength(1);
});

test('a follow-up and a batch that are reset after a target was removed end as before, with the same webhook id', async () => {
  const project = tested.newProject();
  writeTargets({ leaves: targets['ci'] });
  const notify = ['leaves', 'ci'];
  const followUp = await project.start('job', { notify });
  const batch = await startBatch(tested.stack, project.id, {
    items: makeItems(tested.stack, [project.id], 1, FAST),
    notify,
  });
  await Promise.all([followUp.result(), batch.result()]);
  writeTargets({});
  const { workflowId } = batch.handle;
  for (const id of [followUp.workflowId, workflowId]) await resetWorkflow(tested.stack.client, id, 'first');
  expect(await followUp.result()).toMatchObject({ status: 'completed' });
  expect(await batch.result()).toMatchObject({ completed: 1 });
  expect(project.delivered).toHaveLength(2);
  for (const id of [followUp.workflowId, workflowId]) {
    expect(new Set((await receives('ci', { workflowId: id })).map((webhook) => webhook.id)).size).toBe(1);
  }
});
