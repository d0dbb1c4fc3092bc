import { randomUUID } from 'node:crypto';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { InterceptingCall, status, type Interceptor } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, inject, onTestFinished, test, vi } from 'vitest';
import { resetWorkflow } from '../../chaos/buttons.js';
import { startTcpProxy } from '../../chaos/tcp-proxy.js';
import { decodePayloads } from '../../src/client/history.js';
import { budgetStatusQuery, projectBudgetWorkflowId } from '../../src/contract/index.js';
import type { SettleMessage } from '../../src/contract/protocol.js';
import { connectBudgetClient, makeAcquireRequest } from '../support/budget-client.js';
import { eventually } from '../support/eventually.js';
import { startStack, type Stack } from '../support/stack.js';

const address = inject('temporalAddress');
const URGENT = { isUrgent: true };
let stack: Stack;

beforeAll(async () => {
  stack = await startStack({ address });
});
afterAll(() => stack.stop());

/** Lets the next `count` calls of a method, by default asks, reach the server, and replaces its answers with an error. */
function losesAnswers(count: number, code: status, method = 'ExecuteMultiOperation'): Interceptor {
  return (options, nextCall) => {
    const loses = options.method_definition.path.endsWith(method) && count-- > 0;
    return new InterceptingCall(nextCall(options), {
      start(metadata, _listener, next) {
        next(metadata, {
          onReceiveMetadata: (received, pass) => pass(received),
          onReceiveMessage: (message: unknown, pass) => pass(loses ? null : message),
          onReceiveStatus: (received, pass) =>
            pass(loses ? { ...received, code, details: 'lost on the way' } : received),
        });
      },
    });
  };
}

function budgetThatLoses(count: number, code: status) {
  const { taskQueue, namespace } = stack;
  const interceptors = [losesAnswers(count, code)];
  return connectBudgetClient({ address, namespace, taskQueue, limit: 100, interceptors });
}

const request = () => makeAcquireRequest({ workflowId: `follow-up/p/j/${randomUUID()}`, jobId: 'j' });

test.each([
  ['FAILED_PRECONDITION', status.FAILED_PRECONDITION],
  ['UNAVAILABLE', status.UNAVAILABLE],
  ['ABORTED', status.ABORTED],
  ['DEADLINE_EXCEEDED', status.DEADLINE_EXCEEDED],
  ['INTERNAL', status.INTERNAL],
  ['RESOURCE_EXHAUSTED', status.RESOURCE_EXHAUSTED],
])('a grant whose answer is lost with %s is granted again to the same token', async (_name, code) => {
  const projectId = `lost-${randomUUID()}`;
  const { budget, close } = await budgetThatLoses(2, code);
  const ask = await budget.acquire(projectId, request());
  expect(ask).toMatchObject({ proven: true, answer: { kind: 'granted' } });
  const handle = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  expect(await handle.query(budgetStatusQuery)).toMatchObject({ used: 1, unsettled: 1 });
  await close();
});

test('a budget is silent if the server keeps turning its asks away: this takes seconds and proves nothing', async () => {
  const { budget, close } = await budgetThatLoses(1_000, status.RESOURCE_EXHAUSTED);
  const fromMs = performance.now();
  const ask = await budget.acquire(`busy-${randomUUID()}`, request());
  expect(ask).toMatchObject({ proven: false, answer: { kind: 'wait', reason: 'budget-silent' } });
  expect(performance.now() - fromMs).toBeLessThan(9_000);
  await close();
});

test('a grant to an ask that was let go is taken back as soon as its follow-up asks again, through any worker', async () => {
  const projectId = `let-go-${randomUUID()}`;
  const { budget, close } = await budgetThatLoses(1, status.PERMISSION_DENIED);
  const first = { ...request(), askNumber: 1, provenNotSent: true as const };
  // The budget granted it, and the answer is lost for good.
  expect(await budget.acquire(projectId, first)).toMatchObject({ proven: false });
  const handle = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  expect(await handle.query(budgetStatusQuery)).toMatchObject({ used: 1, unsettled: 1 });
  const later = { token: randomUUID(), attemptScheduledAtMs: Date.now(), askNumber: 2 };
  const { taskQueue, namespace } = stack;
  const other = await connectBudgetClient({ address, namespace, taskQueue, limit: 100 });
  expect(await other.budget.acquire(projectId, { ...first, ...later })).toMatchObject({
    proven: true,
    answer: { kind: 'done', outcome: 'notSent' },
  });
  expect(await handle.query(budgetStatusQuery)).toMatchObject({ used: 0, unsettled: 0 });
  await other.close();
  await close();
});

test.concurrent('a settle that the server does not answer is given up', async () => {
  const proxy = await startTcpProxy(address);
  const { taskQueue, namespace } = stack;
  const { budget, close } = await connectBudgetClient({ address: proxy.address, namespace, taskQueue, limit: 100 });
  const projectId = `silent-${randomUUID()}`;
  const asked = request();
  await budget.acquire(projectId, asked);
  proxy.set({ kind: 'blackhole' });
  const fromMs = performance.now();
  await expect(budget.tell(projectId, { kind: 'settle', ...asked, outcome: 'sent' }, URGENT)).rejects.toThrow();
  expect(performance.now() - fromMs).toBeLessThan(15_000);
  await close();
  await proxy.close();
});

test('a budget is silent at once if the server refuses its ask', async () => {
  const { budget, close } = await budgetThatLoses(1, status.PERMISSION_DENIED);
  const fromMs = performance.now();
  const ask = await budget.acquire(`refused-${randomUUID()}`, request());
  expect(ask).toMatchObject({ proven: false, answer: { kind: 'wait', reason: 'budget-silent' } });
  expect(performance.now() - fromMs).toBeLessThan(2_000);
  await close();
});

test('entries that come together share one signal, each is confirmed, and a bad one loses no other', async () => {
  const projectId = `words-${randomUUID()}`;
  const { budget, close } = await budgetThatLoses(0, status.OK);
  const settle = { kind: 'settle' as const, outcome: 'sent' as const };
  expect(await budget.tell(projectId, { ...settle, ...request() }, URGENT)).toBe(false);
  const asked = Array.from({ length: 10 }, (_, index) => ({ ...request(), jobId: `job-${index}` }));
  await Promise.all(asked.map((each) => budget.acquire(projectId, each)));
  const words = asked.map((each, index) => ({ ...settle, ...each, ...(index === 3 && { sendNumber: 0.5 }) }));
  expect(await Promise.all(words.map((word) => budget.tell(projectId, word, URGENT)))).toEqual(words.map(() => true));
  const handle = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  expect(await handle.query(budgetStatusQuery)).toMatchObject({ used: 10, unsettled: 1 });
  const { events } = await handle.fetchHistory();
  // The first leaves at once, and the others together when its call is over.
  expect(events?.filter((event) => event.workflowExecutionSignaledEventAttributes)).toHaveLength(2);
  await close();
});

test('an entry that is not urgent travels with the next ask, is heard before it, and can be read from the history', async () => {
  const projectId = `along-${randomUUID()}`;
  const { budget, close } = await budgetThatLoses(0, status.OK);
  const [first, second, third] = [request(), request(), { ...request(), jobId: 'another' }];
  await budget.acquire(projectId, first);
  // After an entry that left at once, the next one would leave three seconds later.
  await budget.tell(projectId, { kind: 'withdraw', ...request(), workflowId: 'follow-up/p/job/other' }, URGENT);
  const told = [
    budget.tell(projectId, { kind: 'settle', ...first, outcome: 'sent' }, { isUrgent: false }),
    budget.tell(projectId, { kind: 'finish', ...first, outcome: 'sent' }, { isUrgent: false }),
  ];
  await delay(100);
  // They have the same job, so this waits if the budget has not heard of the first one's end.
  expect(await budget.acquire(projectId, second)).toMatchObject({ answer: { kind: 'granted' } });
  expect(await Promise.all(told)).toEqual([true, true]);
  const handle = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  const { events } = await handle.fetchHistory();
  expect(events?.filter((event) => event.workflowExecutionSignaledEventAttributes)).toHaveLength(1);
  const updates = events?.flatMap((event) => event.workflowExecutionUpdateAcceptedEventAttributes ?? []);
  const { payloads } = updates?.at(-1)?.acceptedRequest?.input?.args ?? {};
  const [, words] = await decodePayloads(stack.client, handle.workflowId, payloads);
  const [settle] = words as SettleMessage[];
  // It was told 100 ms before the ask. Timers may fire a millisecond early.
  expect(settle?.agoMs).toBeGreaterThanOrEqual(99);
  const { lastSends = [] } = (await stack.followUps.budget(projectId).status()) ?? {};
  const sends = new Map(lastSends.map((send) => [send.workflowId, send]));
  const overAt = Date.parse(sends.get(first.workflowId)?.settledAt ?? '');
  expect(Date.parse(sends.get(second.workflowId)?.grantedAt ?? '') - overAt).toBeGreaterThanOrEqual(99);

  await handle.terminate('for the test');
  await stack.followUps.budget(projectId).restore();
  expect(await stack.followUps.budget(projectId).status()).toMatchObject({ used: 2, unsettled: 1 });
  expect(await budget.acquire(projectId, third)).toMatchObject({ answer: { kind: 'granted' } });
  await close();
});

test('news of the API key stays in order: it travels with no ask', async () => {
  const projectId = `key-${randomUUID()}`;
  const { budget, close } = await budgetThatLoses(0, status.OK);
  await budget.acquire(projectId, request());
  const told = [true, false].map((isRefused) =>
    budget.tell(projectId, { kind: 'keyRead', isRefused }, { isUrgent: false }),
  );
  await budget.acquire(projectId, { ...request(), jobId: 'another' });
  expect(await Promise.all(told)).toEqual([true, true]);
  const handle = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  expect((await handle.query(budgetStatusQuery)).paused).toBeUndefined();
  const { events } = await handle.fetchHistory();
  expect(events?.filter((event) => event.workflowExecutionSignaledEventAttributes)).toHaveLength(2);
  await close();
});

test('an entry that waits for an earlier call is delivered before the connections close', async () => {
  const projectId = `last-words-${randomUUID()}`;
  const { budget, close } = await budgetThatLoses(0, status.OK);
  const asked = ['one', 'two'].map((jobId) => ({ ...request(), jobId }));
  for (const each of asked) await budget.acquire(projectId, each);
  const told = asked.map((each) => budget.tell(projectId, { kind: 'settle', ...each, outcome: 'sent' }, URGENT));
  await close();
  expect(await Promise.all(told)).toEqual([true, true]);
  const handle = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  expect(await handle.query(budgetStatusQuery)).toMatchObject({ used: 2, unsettled: 0 });
});

test('300 asks at once are all answered, in few updates of the budget', async () => {
  const projectId = `crowd-${randomUUID()}`;
  const { budget, close } = await budgetThatLoses(0, status.OK);
  const asks = await Promise.all(
    Array.from({ length: 300 }, (_, index) => budget.acquire(projectId, { ...request(), jobId: `job-${index}` })),
  );
  expect(asks.every(({ proven }) => proven)).toBe(true);
  expect(asks.filter(({ answer }) => answer.kind === 'granted')).toHaveLength(10);
  const handle = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  expect(await handle.query(budgetStatusQuery)).toMatchObject({ waitingTotal: 290, unsettled: 10 });
  const { events } = await handle.fetchHistory();
  const updates = events?.filter((event) => event.workflowExecutionUpdateCompletedEventAttributes) ?? [];
  expect(updates.length).toBeLessThanOrEqual(20);
  await close();
});

test('an urgent entry sends an ask that waits on its way, and travels with it', async () => {
  const projectId = `hurried-${randomUUID()}`;
  const { budget, close } = await budgetThatLoses(0, status.OK);
  // The time between two calls never passes.
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const first = request();
  await budget.acquire(projectId, first);
  const second = budget.acquire(projectId, { ...request(), jobId: 'another' });
  await nextTurn();
  expect(await budget.tell(projectId, { kind: 'settle', ...first, outcome: 'sent' }, URGENT)).toBe(true);
  expect(await second).toMatchObject({ proven: true, answer: { kind: 'granted' } });
  const handle = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  expect(await handle.query(budgetStatusQuery)).toMatchObject({ used: 2, unsettled: 1 });
  const { events } = await handle.fetchHistory();
  expect(events?.filter((event) => event.workflowExecutionSignaledEventAttributes)).toEqual([]);
  vi.useRealTimers();
  await close();
}, 60_000);

test('an entry for a budget that was reset is heard by the run that takes its place', async () => {
  const projectId = `reset-${randomUUID()}`;
  const { taskQueue, namespace } = stack;
  const tellInterceptors = [losesAnswers(1, status.INTERNAL, '/DescribeWorkflowExecution')];
  const { budget, close } = await connectBudgetClient({ address, namespace, taskQueue, limit: 100, tellInterceptors });
  onTestFinished(async () => {
    await close();
  });
  const asked = request();
  await budget.acquire(projectId, asked);
  const workflowId = projectBudgetWorkflowId(projectId);
  await resetWorkflow(stack.client, workflowId, 'first');
  const { workflow } = stack.client;
  const handle = workflow.getHandle(workflowId);
  await eventually('the budget has ended itself', async () => (await handle.describe()).status.name === 'FAILED');
  const { sendNumber, token } = asked;
  const settle = { kind: 'settle', workflowId: asked.workflowId, sendNumber, token, outcome: 'sent' } as const;
  // While it cannot be found out whether the budget was reset, the entry counts as not heard, and not as unwanted.
  const first = await budget.tell(projectId, settle, { isUrgent: false }).catch((error: unknown) => error);
  expect(first).toMatchObject({ cause: { code: status.INTERNAL } });
  expect(await budget.tell(projectId, settle, { isUrgent: false })).toBe(true);
  expect(await handle.query(budgetStatusQuery)).toMatchObject({ used: 1, unsettled: 0 });
});

test('an entry whose ask the budget does not answer is signalled, too', async () => {
  const own = await startStack({ address });
  const { taskQueue, namespace, client } = own;
  const { budget, close } = await connectBudgetClient({ address, namespace, taskQueue, limit: 100 });
  const projectId = `alone-${randomUUID()}`;
  const first = request();
  await budget.acquire(projectId, first);
  await own.stopWorker();
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  // One goes out at once, and the other waits.
  for (const each of [request(), request()]) void budget.acquire(projectId, each);
  await nextTurn();
  const told = budget.tell(projectId, { kind: 'settle', ...first, outcome: 'limited', retryAfterMs: 60_000 }, URGENT);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await told).toBe(true);
  const { events } = await client.workflow.getHandle(projectBudgetWorkflowId(projectId)).fetchHistory();
  expect(events?.filter((event) => event.workflowExecutionSignaledEventAttributes)).toHaveLength(1);
  vi.useRealTimers();
  await close();
  await own.stop();
}, 60_000);
