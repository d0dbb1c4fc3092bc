import { randomUUID } from 'node:crypto';
import {
  WorkflowExecutionAlreadyStartedError,
  type WorkflowHandleWithFirstExecutionRunId,
  type WorkflowStartOptions,
} from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { followUpWorkflowId, type FollowUpInput, type FollowUpResult } from '../../src/contract/index.js';
import { failureOf } from '../support/failure-of.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    simulator: { turn: { minMs: 1_000, maxMs: 1_500 } },
  });
});
afterAll(() => stack.stop());

type StartPolicy = Pick<WorkflowStartOptions, 'workflowIdReusePolicy' | 'workflowIdConflictPolicy'>;

/** Starts a follow-up with a fixed key, as any Temporal client can. */
function start(input: FollowUpInput, policy: StartPolicy = {}) {
  const { projectId, jobId } = input;
  return stack.client.workflow.start('followUp', {
    taskQueue: stack.taskQueue,
    workflowId: followUpWorkflowId({ projectId, jobId, key: 'key' }),
    args: [input],
    ...policy,
  });
}

/** How often a follow-up has waited for longer than the 1 ms until its decision is in the history. */
async function waitsOf(handle: WorkflowHandleWithFirstExecutionRunId): Promise<number> {
  const { events } = await stack.client.workflow
    .getHandle(handle.workflowId, handle.firstExecutionRunId)
    .fetchHistory();
  const timers = (events ?? []).flatMap(({ timerStartedEventAttributes: timer }) => timer?.startToFireTimeout ?? []);
  return timers.filter((timeout) => tsToMs(timeout) > 1).length;
}

function newJob(): FollowUpInput {
  const projectId = `again-${randomUUID().slice(0, 8)}`;
  stack.simulator.addJob({ projectId, jobId: 'job' });
  return { projectId, jobId: 'job', prompt: `the first message to ${projectId}`, ...FAST };
}

const arrived = ({ projectId }: FollowUpInput) =>
  stack.simulator.ledger.filter((entry) => entry.projectId === projectId).map(({ status }) => status);

describe.each<[string, StartPolicy]>([
  ['ALLOW_DUPLICATE', { workflowIdReusePolicy: 'ALLOW_DUPLICATE' }],
  ['FAIL', { workflowIdConflictPolicy: 'FAIL' }],
  ['USE_EXISTING', { workflowIdConflictPolicy: 'USE_EXISTING' }],
  ['TERMINATE_EXISTING', { workflowIdConflictPolicy: 'TERMINATE_EXISTING' }],
])('a used key that is started again with %s after the end,', (_name, policy) => {
  test('with the same prompt returns the recorded delivery, and sends nothing', async () => {
    const input = newJob();
    const started = await start(input);
    const first = (await started.result()) as FollowUpResult;
    const startedMs = (await started.describe()).startTime.getTime();
    const second = (await (await start(input, policy)).result()) as FollowUpResult;
    // Nobody knows the job before the send of another run, so its link counts as not changed.
    expect(second).toMatchObject({ status: 'completed', delivery: 'sent', prLink: first.prLink, prLinkChanged: false });
    expect(Date.parse(second.sentAt)).toBeGreaterThanOrEqual(startedMs);
    expect(Date.parse(second.sentAt)).toBeLessThan(Date.parse(first.finishedAt));
    expect(arrived(input)).toEqual([200]);
  });

  test('with another prompt fails with Closed, and says that it was not sent and why', async () => {
    const input = newJob();
    await (await start(input)).result();
    const second = await start({ ...input, prompt: 'another message' }, policy);
    const failure = await failureOf(second.result());
    expect(failure).toMatchObject({ type: 'Closed', delivered: 'no' });
    expect(failure).toMatchObject({
      message: expect.stringContaining('key was already used for another message') as string,
    });
    expect(await waitsOf(second)).toBe(0);
    expect(arrived(input)).toEqual([200]);
  });
});

describe.each<[string, StartPolicy]>([
  ['TERMINATE_EXISTING', { workflowIdConflictPolicy: 'TERMINATE_EXISTING' }],
  ['ALLOW_DUPLICATE_FAILED_ONLY', { workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' }],
])('a follow-up that is terminated while its agent works, and started again with %s,', (name, policy) => {
  async function sentAndTerminated(input: FollowUpInput): Promise<void> {
    const handle = await start(input);
    await expect.poll(() => arrived(input).length).toBe(1);
    await expect.poll(async () => (await stack.followUps.handle(handle.workflowId).progress()).state).toBe('polling');
    // TERMINATE_EXISTING does this itself.
    if (name !== 'TERMINATE_EXISTING') await handle.terminate();
  }

  test('is completed by the second one if that has the same prompt', async () => {
    const input = newJob();
    await sentAndTerminated(input);
    const second = (await (await start(input, policy)).result()) as FollowUpResult;
    expect(second).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(arrived(input)).toEqual([200]);
  });

  test('keeps the key: the second one fails with Closed if it has another prompt', async () => {
    const input = newJob();
    await sentAndTerminated(input);
    const second = await start({ ...input, prompt: 'another message' }, policy);
    expect(await failureOf(second.result())).toMatchObject({ type: 'Closed', delivered: 'no' });
    expect(arrived(input)).toEqual([200]);
  });
});

describe('a key whose follow-up is still under way', () => {
  /** A follow-up whose message has arrived, and whose answer takes four seconds. */
  async function startSending(input: FollowUpInput) {
    stack.simulator.failNext({ method: 'POST', projectId: input.projectId, when: 'after', how: { dripMs: 4_000 } });
    const handle = await start(input);
    await expect
      .poll(async () => (await stack.followUps.budget(input.projectId).status())?.unsettled, { timeout: 60_000 })
      .toBe(1);
    await expect.poll(() => arrived(input).length, { timeout: 60_000 }).toBe(1);
    return handle;
  }

  test('is refused at the start with FAIL, and returns the running one with USE_EXISTING', async () => {
    const input = newJob();
    const first = await startSending(input);
    for (const prompt of [input.prompt, 'another message']) {
      const refused = start({ ...input, prompt }, { workflowIdConflictPolicy: 'FAIL' });
      await expect(refused).rejects.toThrow(WorkflowExecutionAlreadyStartedError);
      // Temporal starts nothing and drops the input. Only the caller can know that the result belongs to another input.
      const same = await start({ ...input, prompt }, { workflowIdConflictPolicy: 'USE_EXISTING' });
      expect(same.firstExecutionRunId).toBe(first.firstExecutionRunId);
    }
    expect(await first.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(arrived(input)).toEqual([200]);
  });

  test('and is terminated during its send fails with Closed at once if the second start has another prompt', async () => {
    const input = newJob();
    await startSending(input);
    const second = await start(
      { ...input, prompt: 'another message' },
      { workflowIdConflictPolicy: 'TERMINATE_EXISTING' },
    );
    expect(await failureOf(second.result())).toMatchObject({ type: 'Closed', delivered: 'no' });
    expect(await waitsOf(second)).toBe(0);
    expect(arrived(input)).toEqual([200]);
  });
});

test.each(['the same prompt', 'another prompt'])(
  'the key of a follow-up that was cancelled before it asked is free for %s',
  async (what) => {
    const input = newJob();
    stack.simulator.failNext({ method: 'GET', projectId: input.projectId, how: { status: 503 }, times: 1_000 });
    const first = await start(input);
    await expect.poll(async () => (await stack.followUps.handle(first.workflowId).progress()).state).toBe('blocked');
    await first.cancel();
    await expect(first.result()).rejects.toThrow();
    stack.simulator.clearFaults();
    const prompt = what === 'the same prompt' ? input.prompt : 'another message';
    const second = await start({ ...input, prompt }, { workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' });
    expect(await second.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(arrived(input)).toEqual([200]);
  },
);

test('the key of a follow-up that was cancelled while it waited for its slot is free', async () => {
  const input = newJob();
  const budget = stack.followUps.budget(input.projectId);
  await budget.pause();
  const first = await start(input);
  await expect.poll(async () => (await budget.status())?.waitingTotal).toBe(1);
  await first.cancel();
  await expect(first.result()).rejects.toThrow();
  await budget.resume();
  const second = await start(input, { workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' });
  expect(await second.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
  expect(arrived(input)).toEqual([200]);
});

test.each<[string, StartPolicy]>([
  ['REJECT_DUPLICATE', { workflowIdReusePolicy: 'REJECT_DUPLICATE' }],
  ['ALLOW_DUPLICATE_FAILED_ONLY', { workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' }],
])('the key of a completed follow-up is refused at the start with %s', async (_name, policy) => {
  const input = newJob();
  await (await start(input)).result();
  for (const prompt of [input.prompt, 'another message']) {
    await expect(start({ ...input, prompt }, policy)).rejects.toThrow(WorkflowExecutionAlreadyStartedError);
  }
  expect(arrived(input)).toEqual([200]);
});

test('only the start and the send of a follow-up hold the prompt', async () => {
  const input = newJob();
  const budget = stack.followUps.budget(input.projectId);
  await (await start({ ...input, prompt: 'starts the budget' })).result();
  await budget.pause();
  const jobId = 'job-2';
  stack.simulator.addJob({ projectId: input.projectId, jobId });
  const handle = await start({ ...input, jobId });
  await expect.poll(async () => (await stack.followUps.handle(handle.workflowId).progress()).state).toBe('blocked');
  await budget.resume();
  await handle.result();
  const { events } = await handle.fetchHistory();
  expect(events?.length).toBeGreaterThan(15);
  const [started, send, ...others] = (events ?? []).filter((event) => holds(event, input.prompt));
  expect(started?.workflowExecutionStartedEventAttributes).toBeTruthy();
  expect(send?.activityTaskScheduledEventAttributes?.activityType?.name).toBe('sendMessage');
  expect(others).toEqual([]);
});

/** Whether any payload or text of a value holds `text`. */
function holds(value: unknown, text: string): boolean {
  if (value instanceof Uint8Array) return Buffer.from(value).toString().includes(text);
  if (typeof value === 'string') return value.includes(text);
  return typeof value === 'object' && value !== null && Object.values(value).some((each) => holds(each, text));
}
