import { randomUUID } from 'node:crypto';
import { InterceptingCall, type Interceptor, Metadata, status } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { FollowUpClient, type FollowUpUpdate, TemporalUnreachableError } from '../../src/client/index.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { resetWorkflow } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, startStack } from '../support/stack.js';
import { startTcpProxy } from '../support/tcp-proxy.js';

const address = inject('temporalAddress');
const project = `handle-${randomUUID().slice(0, 8)}`;
const taskQueue = `nobody-${randomUUID()}`;
let client: Client;
let connection: Connection;
/** No worker polls its task queue, so a follow-up runs until the test ends it. */
let followUps: FollowUpClient;
beforeAll(async () => {
  connection = await Connection.connect({ address });
  await ensureSearchAttributes(connection, 'default');
  client = new Client({ connection });
  followUps = new FollowUpClient({ client, taskQueue });
});
afterAll(() => connection.close());

const start = (jobId: string) => followUps.start({ projectId: project, jobId, prompt: 'Add tests.' });
const terminate = (workflowId: string) => client.workflow.getHandle(workflowId).terminate('by an operator');

test.concurrent('result and watch end at their abort signal, and the follow-up continues', async () => {
  const followUp = await start('job-1');
  const controller = new AbortController();
  const { signal } = controller;
  const result = followUp.result({ signal }).catch((error: unknown) => error);
  for await (const _update of followUp.watch({ signal })) controller.abort(new Error('enough'));
  expect(await result).toMatchObject({ message: 'enough' });
  expect((await followUp.describe()).status).toBe('running');
  await terminate(followUp.workflowId);
});

test('a follow-up that has had as many signals as Temporal allows refuses more', { tags: 'long' }, async () => {
  const followUp = await start('job-signals');
  const { workflowId } = followUp;
  let error: unknown;
  const signalOn = async () => {
    while (error === undefined) await followUp.pollNow().catch((refused: unknown) => (error = refused));
  };
  await Promise.all(Array.from({ length: 64 }, signalOn));
  expect(error).toMatchObject({ type: 'TooManySignals', exitCode: 1, workflowId });
  expect(String(error)).toContain('accepts no more signals');
  await terminate(workflowId);
});

test.concurrent('without a worker, the progress is unavailable, and a watch continues to the end', async () => {
  const followUp = await start('job-2');
  const watch = followUp.watch({ intervalMs: 50 });
  const first = (await watch.next()).value;
  expect(first).toMatchObject({ summary: { status: 'running' }, progressUnavailable: expect.any(String) });
  await expect(followUp.progress()).rejects.toMatchObject({ type: 'WorkerUnavailable' });
  await terminate(followUp.workflowId);
  expect((await watch.next()).value).toMatchObject({ summary: { status: 'terminated' } });
  expect((await watch.next()).done).toBe(true);
  const message = expect.stringContaining('by an operator');
  await expect(followUp.result()).rejects.toMatchObject({ type: 'Terminated', delivered: 'unknown', message });
  for (const order of [() => followUp.cancel(), () => followUp.pollNow(), () => followUp.resolve('sent')])
    await expect(order()).rejects.toMatchObject({ type: 'FollowUpEnded' });
});

test.concurrent('every call to a follow-up that does not exist fails with FollowUpNotFound', async () => {
  const nobody = followUps.handle(`follow-up/${project}/job-1/nobody`);
  const reads = [() => nobody.result(), () => nobody.progress(), () => nobody.describe()];
  const orders = [() => nobody.cancel(), () => nobody.pollNow(), () => nobody.resolve('sent')];
  for (const call of [...reads, ...orders]) await expect(call()).rejects.toMatchObject({ type: 'FollowUpNotFound' });
  await expect(nobody.watch().next()).rejects.toMatchObject({ type: 'FollowUpNotFound' });
});

test.concurrent('result keeps waiting after server errors that say nothing about the follow-up', async () => {
  const codes = [status.UNKNOWN, status.INTERNAL, status.ABORTED];
  // An interceptor, because a real server does not fail on demand.
  const outOfOrder: Interceptor = (options, nextCall) => {
    const isResult = options.method_definition.path.endsWith('GetWorkflowExecutionHistory');
    const code = isResult ? codes.shift() : undefined;
    if (code === undefined) return new InterceptingCall(nextCall(options));
    return new InterceptingCall(nextCall(options), {
      start: (metadata, _listener, next) =>
        next(metadata, {
          onReceiveStatus: (_status, report) => report({ code, details: 'out of order', metadata: new Metadata() }),
        }),
    });
  };
  const broken = Connection.lazy({ address, interceptors: [outOfOrder] });
  onTestFinished(() => broken.close());
  const { workflowId } = await start('job-3');
  const result = new FollowUpClient({ client: new Client({ connection: broken }) }).handle(workflowId).result();
  await eventually('all calls have failed', () => codes.length === 0);
  await terminate(workflowId);
  await expect(result).rejects.toMatchObject({ type: 'Terminated' });
});

describe('while Temporal is unreachable', () => {
  const open = async () => {
    const proxy = await startTcpProxy(address);
    const connection = Connection.lazy({ address: proxy.address, interceptors: [] });
    onTestFinished(() => connection.close());
    return { proxy, away: new FollowUpClient({ client: new Client({ connection }) }) };
  };

  test('result and watch give up after their timeout, and say why', async () => {
    const { proxy, away } = await open();
    const { workflowId } = await start('job-4');
    const handle = away.handle(workflowId);
    const watch = handle.watch({ intervalMs: 50, reconnectTimeoutMs: 200 });
    await watch.next();
    const result = handle.result({ reconnectTimeoutMs: 200 }).catch((error: unknown) => error);
    await proxy.close();
    expect(await result).toBeInstanceOf(TemporalUnreachableError);
    const end = async () => {
      for await (const _update of watch);
    };
    await expect(end()).rejects.toThrow(TemporalUnreachableError);
    await terminate(workflowId);
  });

  test('a wait that is aborted rejects with the reason of the abort', async () => {
    const { proxy, away } = await open();
    await proxy.close();
    const end = new AbortController();
    const result = away.batch('any').result({ signal: end.signal });
    setTimeout(() => end.abort(new Error('no longer wanted')), 500);
    await expect(result).rejects.toThrow('no longer wanted');
  });
});

describe('with a worker', { tags: 'long' }, () => {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack({ address, simulator: { autoCreate: true } });
  });
  afterAll(() => stack.stop());
  const send = (jobId: string) => stack.followUps.start({ projectId: project, jobId, prompt: 'Add tests.', ...FAST });
  const messages = (jobId: string) => stack.simulator.job(project, jobId)?.messages;

  test('a wait for the result lasts through a reset until the new run ends, and the message is not sent twice', async () => {
    const followUp = await send('slow-1');
    await eventually('it polls', async () => (await followUp.progress()).polls > 0);
    const outcome = followUp.result();
    await resetWorkflow(stack.client, followUp.workflowId, 'first');
    expect(await outcome).toMatchObject({ status: 'completed' });
    expect(messages('slow-1')).toBe(1);
  });

  test('watch yields only changes, lasts through an outage of Temporal, and ends with the follow-up', async () => {
    const proxy = await startTcpProxy(address);
    const away = Connection.lazy({ address: proxy.address, interceptors: [] });
    onTestFinished(() => Promise.all([away.close(), proxy.close()]).then(() => undefined));
    const { workflowId } = await send('slow-2');
    const handle = new FollowUpClient({ client: new Client({ connection: away }) }).handle(workflowId);
    const result = handle.result();
    const updates: FollowUpUpdate[] = [];
    for await (const update of handle.watch({ intervalMs: 100 })) {
      updates.push(update);
      if (updates.length === 1) proxy.set({ kind: 'blackhole' });
      if (updates.length !== 2) continue;
      proxy.set({ kind: 'pass' });
      proxy.cut();
    }
    expect(updates[1]).toMatchObject({ progressUnavailable: expect.any(String) });
    expect(await result).toMatchObject({ status: 'completed' });
    expect(updates.at(-1)).toMatchObject({ summary: { status: 'completed' }, progress: { state: 'completed' } });
    expect(new Set(updates.map((update) => JSON.stringify(update))).size).toBe(updates.length);
    expect(messages('slow-2')).toBe(1);
  });
});
