import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { SendMessageOutcome } from '../../src/agent-jobs/index.js';
import { FollowUpClient } from '../../src/client/index.js';
import {
  batchItemKey,
  budgetTaskQueue,
  followUpBatchWorkflowId,
  type FollowUpInput,
  type FollowUpProgress,
  followUpWorkflowId,
  pollNowSignal,
  progressQuery,
  projectBudgetWorkflowId,
  SearchAttribute,
} from '../../src/contract/index.js';
import { reportSignal, WEBHOOK_NOT_DELIVERED, webhookWorkflowId } from '../../src/protocol/index.js';
import { resetToTask, resetWorkflow, sendNonsense } from '../support/buttons.js';
import { contradictions } from '../support/contradictions.js';
import { eventually } from '../support/eventually.js';
import { failureOf } from '../support/failure-of.js';
import { record } from '../support/histories.js';
import { type ScriptedRead, ScriptedService } from '../support/scripted-service.js';
import { startWebhookReceiver } from '../support/webhook-receiver.js';
import { startWorkflowRig, type WorkflowRig } from '../support/workflow-rig.js';

/** The paths of the workflows, with the bundle of the build. `RECORD_HISTORIES=true` records one history of each. */

const BEFORE = { id: 'j', status: 'completed', prLink: 'https://git.example/pull/1' };
const ACTIVE = { id: 'j', status: 'active', prLink: null };
const AFTER = { id: 'j', status: 'completed', prLink: 'https://git.example/pull/2' };
const FAST = { poll: { initialInterval: 100, maxInterval: 200 }, settleTime: 0, prLinkGrace: 0 };
const MISSING = { kind: 'notFound', message: 'HTTP 404' } as const;
const UNREADABLE = { kind: 'failed', reason: 'network', message: 'refused' } as const;
const UNKNOWN = { outcome: 'unknown', message: 'the connection broke' } as const;
const SENT = { outcome: 'sent', statusCode: 200 } as const;
const NOT_SENT = { outcome: 'notSent', message: 'refused' } as const;
const LIMITED = { outcome: 'limited', statusCode: 429, message: 'HTTP 429', retryAfterMs: 1_000 } as const;
const COMPLETED = { status: 'completed', delivery: 'sent', prLink: AFTER.prLink };
const SEEN = { ...COMPLETED, observedActive: true, prLinkChanged: true };
const DOUBT = 'whose delivery is unknown and is';

const service = new ScriptedService();
const receiver = await startWebhookReceiver(({ path }) => (path === '/gone' ? 410 : 204));
const [ci, gone] = ['/ci', '/gone'].map((path) => ({ url: new URL(receiver.url(path)), secrets: [Buffer.alloc(32)] }));
const webhooks = new Map(Object.entries({ ci: ci!, gone: gone! }));
let rig: WorkflowRig;
let followUps: FollowUpClient;
beforeAll(async () => {
  rig = await startWorkflowRig({ address: inject('temporalAddress'), agentJobs: service, leaseMs: 12_000, webhooks });
  followUps = new FollowUpClient({ client: rig.client, taskQueue: rig.taskQueue });
});
afterAll(async () => {
  // The worker can't end before its activities do.
  for (const report of held) report();
  try {
    expect(await contradictions(rig.client, rig.taskQueue)).toEqual([]);
  } finally {
    await rig.stop();
    receiver.close();
  }
});

/** What a new job shows before and after a message. */
interface Script {
  before?: ScriptedRead[];
  after?: ScriptedRead[];
}

/** The message moves no job. */
const still: Script = { after: [BEFORE] };

/** The input of a follow-up to a new job, which by default ends its turn with a new pull request. */
function scripted({ before = [BEFORE], after = [ACTIVE, AFTER] }: Script = {}, more: Partial<FollowUpInput> = {}) {
  const id = randomUUID().slice(0, 8);
  const input = { projectId: `p-${id}`, jobId: `job-${id}`, prompt: 'x', ...FAST, ...more };
  service.reads(input.jobId, ...before).readsAfterMessage(input.jobId, ...after);
  return input;
}

const budgetOf = ({ projectId }: FollowUpInput) => rig.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
const receivedBy = ({ jobId }: FollowUpInput) => service.received.filter((message) => message.jobId === jobId).length;

const shows = (handle: WorkflowHandle, expected: Partial<FollowUpProgress>) =>
  eventually(`it shows ${JSON.stringify(expected)}`, async () => {
    const progress = await handle.query(progressQuery);
    return Object.entries(expected).every(([key, value]) => progress[key as keyof FollowUpProgress] === value);
  });

/** A workflow's newest run: a reset makes another. */
const newest = ({ workflowId }: { workflowId: string }) => rig.client.workflow.getHandle(workflowId);

const recordRun = (name: string, { workflowId }: { workflowId: string }, runId?: string) =>
  record(rig.client, name, workflowId, runId);

async function ends(name: string, handle: WorkflowHandle, expected: object = COMPLETED): Promise<void> {
  expect(await handle.result()).toMatchObject(expected);
  await recordRun(name, handle);
}

async function fails(name: string, handle: WorkflowHandle, expected: object): Promise<void> {
  expect(await failureOf(handle.result())).toMatchObject(expected);
  await recordRun(name, handle);
}

/** Starts a follow-up of a budget that lets nothing through. */
async function startWaiting(input: FollowUpInput) {
  await followUps.budget(input.projectId).setLimit({ limit: 0 });
  const handle = await rig.start(input);
  await shows(handle, { state: 'waiting-for-budget', position: 1 });
  return handle;
}

/** Each reports the end of a message. */
const held: (() => void)[] = [];

/** A message arrives, but nobody reports that until the test asks for it. */
function hold(input: FollowUpInput, outcome: SendMessageOutcome = SENT): () => void {
  const sent = new Promise<SendMessageOutcome>((resolve) => held.push(() => resolve(outcome)));
  service.sends(input.jobId, sent);
  return held.at(-1)!;
}

describe.concurrent('a follow-up', () => {
  test.each<[string, object, Script?, Partial<FollowUpInput>?, SendMessageOutcome?, string?]>([
    ['that is sent at once', SEEN, {}, {}, SENT, 'a budget that starts with an ask'],
    ['that waits for its job', COMPLETED, { before: [ACTIVE, ACTIVE, BEFORE] }],
    ['that the service limits', COMPLETED, {}, {}, LIMITED, 'a budget that the service limits'],
    [`${DOUBT} inferred from what its job shows`, { delivery: 'inferred' }, { after: [AFTER] }, {}, UNKNOWN],
    [`${DOUBT} assumed on request`, { delivery: 'assumed' }, still, { onUnknownDelivery: 'assumeSent' }, UNKNOWN],
    [`${DOUBT} repeated on request`, { delivery: 'sent' }, still, { onUnknownDelivery: 'resend' }, UNKNOWN],
  ])('%s completes', async (what, expected, script, more, sent, budget) => {
    const input = scripted(script, more);
    if (sent) service.sends(input.jobId, sent);
    await ends(`a follow-up ${what}`, await rig.start(input), { status: 'completed', ...expected });
    if (budget !== undefined) await recordRun(budget, budgetOf(input));
  });

  test('waits in line until it is granted a slot', async () => {
    const input = scripted();
    const handle = await startWaiting(input);
    await followUps.budget(input.projectId).setLimit({ limit: 7 });
    await ends('a follow-up that waits and is granted a slot', handle);
  });

  test('is blocked while its job cannot be read, and reads it at once after the signal pollNow', async () => {
    const input = scripted({ before: [UNREADABLE] });
    const handle = await rig.start(input);
    await shows(handle, { state: 'blocked', waitReason: 'service' });
    service.reads(input.jobId, BEFORE);
    await handle.signal('pollNow');
    await ends('a follow-up whose job cannot be read', handle);
  });

  test('whose send did not begin shows no time of a send, which a new budget would count', async () => {
    const input = scripted();
    const report = hold(input, NOT_SENT);
    const handle = await rig.start(input);
    const sendTime = async () => (await handle.describe()).typedSearchAttributes.get(SearchAttribute.lastSendAt);
    await shows(handle, { state: 'sending' });
    expect(await sendTime()).toBeDefined();
    const budget = followUps.budget(input.projectId);
    await budget.pause();
    report();
    await shows(handle, { waitReason: 'paused' });
    expect(await sendTime()).toBeUndefined();
    await budget.resume();
    await ends('a follow-up whose send did not begin', handle);
    expect(await sendTime()).toBeDefined();
  });

  test('whose delivery is unknown takes the decision of an operator', async () => {
    const input = scripted(still, { settleTime: '1h' });
    service.sends(input.jobId, UNKNOWN);
    const handle = await rig.start(input);
    await shows(handle, { state: 'reconciling' });
    await handle.executeUpdate('resolveDelivery', { args: ['sent'] });
    await shows(handle, { state: 'polling' });
    service.reads(input.jobId, AFTER);
    await ends('a follow-up whose delivery an operator knows', handle, { status: 'completed', delivery: 'assumed' });
  });

  test('whose send is completed by hand does not take that for the service’s response', async () => {
    const input = scripted(still);
    const report = hold(input);
    const handle = await rig.start(input);
    const { activityId } = await eventually('it is being sent', async () => {
      const { raw } = await handle.describe();
      return raw.pendingActivities?.find(({ activityType }) => activityType?.name === 'sendMessage');
    });
    const { workflowId } = handle;
    await rig.client.activity.complete({ workflowId, activityId: activityId ?? '' }, { outcome: 'notSent' });
    expect(await failureOf(handle.result())).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    report();
    await recordRun('a follow-up whose send is completed by hand', handle);
  });

  test.each<[string, object, Script, Partial<FollowUpInput>, SendMessageOutcome?]>([
    ['DeliveryUnknown', { delivered: 'unknown' }, { after: [BEFORE] }, {}, UNKNOWN],
    ['MessageRejected', { delivered: 'no' }, {}, {}, { outcome: 'rejected', statusCode: 422, message: 'HTTP 422' }],
    ['JobArchived', { delivered: 'no' }, { before: [{ ...BEFORE, status: 'archived' }] }, {}],
    ['JobNotFound', { delivered: 'no' }, { before: [MISSING] }, {}],
    ['JobTimeout', { delivered: 'yes' }, { after: [ACTIVE] }, { jobTimeout: '1s' }],
    ['BudgetWaitTimeout', { delivered: 'no' }, { before: [UNREADABLE] }, { budgetWaitTimeout: '1s' }],
    ['InvalidInput', { delivered: 'no' }, {}, { prompt: '' }],
  ])('fails with %s', async (type, expected, script, more, sent) => {
    const input = scripted(script, more);
    if (sent) service.sends(input.jobId, sent);
    const handle = await rig.start(input);
    await eventually('it has ended', async () => (await handle.describe()).status.name !== 'RUNNING');
    await fails(`a follow-up that fails with ${type}`, handle, { type, ...expected });
  });

  test('whose key was used for another message is closed', async () => {
    const input = scripted();
    const first = await rig.start(input);
    await first.result();
    const { workflowId } = first;
    const { taskQueue } = rig;
    const args = [{ ...input, prompt: 'another' }];
    const again = await rig.client.workflow.start('followUp', { taskQueue, workflowId, args });
    expect(await failureOf(again.result())).toMatchObject({ type: 'Closed' });
    expect(receivedBy(input)).toBe(1);
    await recordRun('a follow-up that is closed', again, again.firstExecutionRunId);
  });

  test('with invalid input reports that an earlier run with its key has delivered the message', async () => {
    const input = scripted();
    const { workflowId } = await rig.start(input);
    await rig.client.workflow.getHandle(workflowId).result();
    const { taskQueue } = rig;
    const args = [{ ...input, notify: ['unknown'] }];
    const again = await rig.client.workflow.start('followUp', { taskQueue, workflowId, args });
    expect(await failureOf(again.result())).toMatchObject({
      type: 'InvalidInput',
      delivered: 'yes',
      message: expect.stringMatching(/^Invalid input: .*; an earlier run of the follow-up has delivered it$/) as string,
    });
    expect(await again.query(progressQuery)).toMatchObject({ state: 'job-failed' });
    await recordRun('a follow-up with invalid input whose key was used', again, again.firstExecutionRunId);
  });
});

describe.concurrent('a follow-up that is cancelled', () => {
  test('while it waits for a slot was not sent', async () => {
    const handle = await startWaiting(scripted());
    await handle.cancel();
    await fails('a follow-up that is cancelled while it waits for a slot', handle, { type: 'Canceled' });
  });

  test.each<[string, FollowUpProgress['state'], object, Script]>([
    ['waits for its job', 'waiting-for-job', { type: 'Canceled' }, { before: [ACTIVE] }],
    ['watches its job', 'polling', { type: 'Cancelled', delivered: 'yes' }, { after: [ACTIVE] }],
  ])('while it %s reports whether it was sent', async (what, state, expected, script) => {
    const handle = await rig.start(scripted(script));
    await shows(handle, { state });
    await handle.cancel();
    await fails(`a follow-up that is cancelled while it ${what}`, handle, expected);
  });

  test('while its delivery is unknown reports that', async () => {
    const input = scripted(still, { settleTime: '1h' });
    service.sends(input.jobId, UNKNOWN);
    const handle = await rig.start(input);
    await shows(handle, { state: 'reconciling' });
    await handle.cancel();
    const expected = { type: 'Cancelled', delivered: 'unknown' };
    await fails('a follow-up that is cancelled while its delivery is unknown', handle, expected);
  });

  test('while its message is being sent lets it arrive', async () => {
    const input = scripted();
    const report = hold(input);
    const handle = await rig.start(input);
    await eventually('it is at the service', () => service.begun.includes(input.jobId));
    await handle.cancel();
    report();
    await fails('a follow-up that is cancelled while its message is on its way', handle, {
      type: 'Cancelled',
      delivered: 'yes',
    });
  });
});

describe.concurrent('a follow-up that is reset', () => {
  test('while it waits is sent once', async () => {
    const input = scripted();
    const handle = await startWaiting(input);
    await resetWorkflow(rig.client, handle.workflowId, 'last');
    // Until it has asked, a grant is for the run before, and nobody can tell whether that used it.
    await shows(newest(handle), { state: 'waiting-for-budget', position: 1 });
    await followUps.budget(input.projectId).setLimit({ limit: 7 });
    expect(await newest(handle).result()).toMatchObject({ status: 'completed' });
    expect(receivedBy(input)).toBe(1);
    await recordRun('a follow-up that was reset while it waited', handle, (await newest(handle).describe()).runId);
  });

  test('after its grant does not use the grant again', async () => {
    const input = scripted({ after: [ACTIVE] });
    const handle = await startWaiting(input);
    await followUps.budget(input.projectId).setLimit({ limit: 7 });
    await shows(handle, { state: 'polling' });
    const { events } = await handle.fetchHistory();
    const scheduled = events?.find(
      ({ activityTaskScheduledEventAttributes: activity }) => activity?.activityType?.name === 'sendMessage',
    );
    const taskId = String(scheduled?.activityTaskScheduledEventAttributes?.workflowTaskCompletedEventId);
    const task = events?.find(({ eventId }) => String(eventId) === taskId);
    const { runId } = await newest(handle).describe();
    await resetToTask(rig.client, { workflowId: handle.workflowId, runId }, task);
    await eventually('it watches its job again', async () => {
      const { state, delivery } = await newest(handle).query(progressQuery);
      return state === 'polling' && delivery === 'sent';
    });
    service.reads(input.jobId, AFTER);
    expect(await newest(handle).result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(receivedBy(input)).toBe(1);
    await recordRun('a follow-up that was reset after its grant', handle, (await newest(handle).describe()).runId);
  });

  test('after its end is not sent again', async () => {
    const input = scripted();
    const handle = await rig.start(input);
    await handle.result();
    await resetWorkflow(rig.client, handle.workflowId, 'first');
    expect(await newest(handle).result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(receivedBy(input)).toBe(1);
    await recordRun('a follow-up that was reset after its end', handle, (await newest(handle).describe()).runId);
  });
});

describe.concurrent('a budget', () => {
  test('holds a follow-up while it is paused, and grants it a slot once it is resumed', async () => {
    const input = scripted();
    const budget = followUps.budget(input.projectId);
    await budget.pause({ note: 'maintenance' });
    await budget.setLimit({ limit: 7, reserve: 2 });
    const handle = await rig.start(input);
    await shows(handle, { state: 'blocked', waitReason: 'paused' });
    await budget.pause({ for: '1h' });
    await budget.resume();
    expect(await handle.result()).toMatchObject(COMPLETED);
    await recordRun('a budget that is paused, changed and resumed', budget);
    await recordRun('a follow-up that waits for a paused budget', handle);
  });

  test('continues as new with its settings, its sends and its line', async () => {
    const input = scripted();
    const handle = await startWaiting(input);
    const budget = newest(budgetOf(input));
    const { runId } = await budget.describe();
    for (let sent = 0; sent < 1_000; sent += 50) {
      await Promise.all(Array.from({ length: 50 }, () => budget.signal(reportSignal.name)));
    }
    await eventually('another run has begun', async () => (await budget.describe()).runId !== runId);
    expect(await followUps.budget(input.projectId).status()).toMatchObject({ limit: 0, waitingTotal: 1 });
    await followUps.budget(input.projectId).setLimit({ limit: 7 });
    expect(await handle.result()).toMatchObject(COMPLETED);
    await recordRun('a budget that continues as new', budget, runId);
    await recordRun('a budget that was continued', budget);
  });

  test('that is stopped blocks those who ask, and counts what was sent when it starts again', async () => {
    const input = scripted();
    await (await rig.start(input)).result();
    const budget = followUps.budget(input.projectId);
    const handle = budgetOf(input);
    await handle.terminate();
    const blocked = await rig.start({ ...scripted(), projectId: input.projectId });
    await shows(blocked, { state: 'blocked', waitReason: 'budget-stopped' });
    await blocked.cancel();
    await fails('a follow-up whose budget is stopped', blocked, { type: 'Canceled' });
    const waits = await rig.start({ ...scripted(), projectId: input.projectId });
    await shows(waits, { state: 'blocked', waitReason: 'budget-stopped' });
    await budget.restore();
    await waits.signal(pollNowSignal);
    expect(await waits.result()).toMatchObject(COMPLETED);
    expect((await budget.status())?.used).toBeGreaterThanOrEqual(2);
    await recordRun('a budget that was restored', handle);
  });

  test('that is reset counts what was sent', async () => {
    const input = scripted();
    await (await rig.start(input)).result();
    const budget = followUps.budget(input.projectId);
    const { remembersSince: before = '' } = (await budget.status()) ?? {};
    await resetWorkflow(rig.client, budgetOf(input).workflowId, 'last');
    await eventually('it has counted again', async () => {
      const { used, isCounting, remembersSince = '' } = (await budget.status()) ?? {};
      return used === 1 && !isCounting && remembersSince > before;
    });
  });

  test('skips signals that make no sense, and fails if its input is invalid', async () => {
    const input = scripted();
    await (await rig.start(input)).result();
    await sendNonsense(rig.client, budgetOf(input).workflowId, [reportSignal.name]);
    expect(await followUps.budget(input.projectId).status()).toMatchObject({ used: 1 });
    await recordRun('a budget that is sent nonsense', budgetOf(input));
    const bad = await rig.client.workflow.start('projectBudget', {
      taskQueue: budgetTaskQueue(rig.taskQueue),
      workflowId: projectBudgetWorkflowId(`bad-${randomUUID()}`),
      args: [{ projectId: 'other' }],
    });
    await expect(bad.result()).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
    await recordRun('a budget with invalid input', bad);
  });
});

describe.concurrent('a batch', () => {
  test('that a schedule starts sends its follow-ups, and a batch with invalid input fails', async () => {
    const [good, missing] = [scripted(), scripted({ before: [MISSING] })];
    const { schedules } = followUps;
    const name = `nightly-${randomUUID().slice(0, 8)}`;
    await schedules.create({ name, every: '365d', input: { items: [good, missing] } });
    try {
      await schedules.trigger(name);
      const { batchId } = await eventually(
        'it has fired',
        async () => (await schedules.describe(name)).recentFirings[0],
      );
      expect(await followUps.batch(batchId).result()).toMatchObject({ total: 2, completed: 1, errors: 1 });
      const item = { workflowId: followUpWorkflowId({ ...good, key: batchItemKey(batchId, 0) }) };
      await recordRun('a batch that a schedule started', { workflowId: followUpBatchWorkflowId({ batchId }) });
      await recordRun('a part of a batch', { workflowId: (await followUps.batch(batchId).parts())[0]! });
      await recordRun('a follow-up of a batch', item);
    } finally {
      await schedules.delete(name);
    }
    const bad = await rig.client.workflow.start('followUpBatch', {
      taskQueue: rig.taskQueue,
      workflowId: followUpBatchWorkflowId({ batchId: randomUUID() }),
      args: [{ items: 'none' }],
    });
    await expect(bad.result()).rejects.toMatchObject({ cause: { type: 'InvalidInput' } });
    await recordRun('a batch with invalid input', bad);
  });

  test('goes on after one of its follow-ups or parts was terminated', async () => {
    const inputs = [scripted({ before: [ACTIVE] }), scripted()] as const;
    const budget = followUps.budget(inputs[1].projectId);
    await budget.pause();
    const batch = await followUps.startBatch({ id: randomUUID(), items: [...inputs] });
    await eventually('one waits', async () => (await budget.status())?.waitingTotal === 1);
    const part = rig.client.workflow.getHandle((await batch.parts())[0]!);
    const key = batchItemKey(batch.batchId, 0);
    const first = rig.client.workflow.getHandle(followUpWorkflowId({ ...inputs[0], key }));
    await eventually('the other runs', async () => (await first.describe()).status.name === 'RUNNING');
    const { runId } = await part.describe();
    await first.terminate();
    await eventually('the part knows it', async () => (await batch.status()).errors === 1);
    await part.terminate();
    await eventually('another run of the part has begun', async () => (await part.describe()).runId !== runId);
    await budget.resume();
    expect(await batch.result()).toMatchObject({ total: 2, completed: 1, errors: 1 });
    await recordRun('a batch whose part was terminated', batch);
    await recordRun('a part of a batch that takes over from another', part);
  });

  test('whose lookups in Temporal are completed or failed by hand repeats them', async () => {
    const input = scripted();
    const budget = followUps.budget(input.projectId);
    await budget.pause();
    const batch = await followUps.startBatch({ id: randomUUID(), items: [input] });
    await eventually('it waits', async () => (await budget.status())?.waitingTotal === 1);
    const part = newest({ workflowId: (await batch.parts())[0]! });
    const failed = Promise.reject(ApplicationFailure.nonRetryable('by hand'));
    failed.catch(() => undefined);
    const aboutPart = [Promise.resolve(null), failed, Promise.resolve({ items: [] })];
    const aboutItems = [failed, Promise.resolve([]), Promise.resolve([{ outcome: 'x' }]), Promise.resolve([{}, {}])];
    rig.wrongAnswers.set(part.workflowId, aboutPart).set(batch.batchId, aboutItems);
    await part.terminate();
    await eventually('all are taken', () => aboutPart.length + aboutItems.length === 0);
    await budget.resume();
    expect(await batch.result()).toMatchObject({ total: 1, completed: 1 });
    expect(receivedBy(input)).toBe(1);
  });

  test('sends webhooks when it is held and when it has ended, and its follow-ups send theirs', async () => {
    const items = [scripted(), scripted()];
    const input = { id: randomUUID(), items, canary: 1, notify: ['ci'], defaults: { notify: ['gone'] } };
    const batch = await followUps.startBatch(input);
    const receives = (count: number) =>
      eventually(`${count} are delivered`, () => {
        const about = receiver.received.filter(({ body }) => body.data.workflowId === batch.workflowId);
        return about.length === count ? about : undefined;
      });
    await receives(1);
    await batch.continue();
    expect(await batch.result()).toMatchObject({ completed: 2 });
    const [held, ended] = await receives(2);
    expect([held?.body.type, ended?.body.type]).toEqual(['batch.held', 'batch.ended']);
    const webhookOf = (target: string, id = '') => newest({ workflowId: webhookWorkflowId({ target, id }) });
    const item = { workflowId: followUpWorkflowId({ ...items[0]!, key: batchItemKey(batch.batchId, 0) }) };
    const refused = await eventually('the end of the item is delivered', () =>
      receiver.received.find(({ body }) => body.data.workflowId === item.workflowId),
    );
    const delivered = webhookOf('ci', ended?.id);
    await delivered.result();
    await recordRun('a webhook that is delivered', delivered);
    await fails('a webhook whose receiver is gone', webhookOf('gone', refused.id), { type: WEBHOOK_NOT_DELIVERED });
    await recordRun('a batch that tells of its hold and its end', batch);
    await recordRun('a follow-up that tells of its end', item);
  });
});
