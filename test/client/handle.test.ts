import { randomUUID } from 'node:crypto';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { InterceptingCall, type Interceptor, Metadata, status } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest';
import { resetToTask } from '../support/buttons.js';
import {
  FollowUpClient,
  type FollowUpUpdate,
  TemporalUnreachableError,
  WorkerUnavailableError,
} from '../../src/client/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const project = `handle-${randomUUID().slice(0, 8)}`;
let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress'), simulator: { autoCreate: true } });
});
afterAll(() => stack.stop());

const start = (jobId: string, key = 'k') =>
  stack.followUps.start({ projectId: project, jobId, prompt: 'Add tests.', key, ...FAST });
const isPolling = (jobId: string, key = 'k') =>
  eventually(`${jobId} polls`, async () => {
    const progress = await stack.followUps.handle(`follow-up/${project}/${jobId}/${key}`).progress();
    return progress.state === 'polling' && progress.polls > 0;
  });

test.concurrent('run returns the result, and reports the start first', async () => {
  const seen: string[] = [];
  const input = { projectId: project, jobId: 'job-1', prompt: 'x', key: 'k', ...FAST };
  const result = await stack.followUps.run(input, { onStarted: ({ workflowId }) => seen.push(workflowId) });
  expect(result).toMatchObject({ status: 'completed', delivery: 'sent', jobId: 'job-1' });
  expect(seen).toEqual([`follow-up/${project}/job-1/k`]);
  // The same result, from the workflow that has ended.
  expect(await stack.followUps.run(input)).toEqual(result);
  expect(await stack.followUps.handle(seen[0] ?? '').result()).toEqual(result);
});

test.concurrent('progress shows the next poll while the agent works, from the heartbeat of the watch', async () => {
  const followUp = await stack.followUps.start({
    ...{ projectId: project, jobId: 'stuck-5', prompt: 'x', key: 'k' },
    poll: { initialInterval: '2s', maxInterval: '2s' },
    settleTime: '0s',
  });
  const progress = await eventually('the job is seen at work', async () => {
    const now = await followUp.progress();
    return now.jobStatus !== undefined && now.nextPollAt !== undefined ? now : undefined;
  });
  expect(progress).toMatchObject({ state: 'polling', polls: expect.any(Number), job: { id: 'stuck-5' } });
  expect(Date.parse(progress.nextPollAt ?? '') - Date.now()).toBeLessThanOrEqual(2_500);
  await followUp.cancel();
  await followUp.result().catch(() => undefined);
});

test.concurrent('an ask of a stopped budget shows its last error, and when it is repeated', async () => {
  const projectId = `${project}-stopped`;
  const budget = stack.followUps.budget(projectId);
  await budget.resume();
  await stack.client.workflow.getHandle(budget.workflowId).terminate();
  const followUp = await stack.followUps.start({ projectId, jobId: 'job-1', prompt: 'x', ...FAST });
  const progress = await eventually('the ask is repeated', async () => {
    const now = await followUp.progress();
    return now.state === 'blocked' && now.nextTryAt !== undefined && now.lastError ? now : undefined;
  });
  const lastError = {
    at: expect.any(String),
    message: expect.stringContaining(`follow-up budget restore ${projectId}`),
  };
  expect(progress).toMatchObject({ waitReason: 'budget-stopped', lastError });
  // The cancel ends the ask, too.
  await followUp.cancel();
  await expect(followUp.result()).rejects.toMatchObject({ type: 'Cancelled', delivered: 'no' });
});

describe.concurrent('each end without a result has its own error, which says whether the message was delivered', () => {
  test('a typed failure', async () => {
    const error = await (await start('missing-1')).result().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: 'FollowUpFailedError', type: 'JobNotFound', delivered: 'no' });
  });

  test('a cancel after the send', async () => {
    const followUp = await start('stuck-1');
    await isPolling('stuck-1');
    await followUp.cancel();
    const error = await followUp.result().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: 'FollowUpFailedError', type: 'Cancelled', delivered: 'yes' });
    await expect(followUp.cancel()).rejects.toMatchObject({ type: 'FollowUpEnded' });
    await expect(followUp.pollNow()).rejects.toMatchObject({ type: 'FollowUpEnded' });
    await expect(followUp.resolve('sent')).rejects.toMatchObject({ type: 'FollowUpEnded' });
  });

  test('a cancel before the send', async () => {
    // Somebody else keeps the job at work, so the message is not sent.
    stack.simulator.addJob({ projectId: project, jobId: 'busy', status: 'active', behaviour: { neverEnds: true } });
    const followUp = await start('busy');
    await eventually('it waits', async () => (await followUp.progress()).state === 'waiting-for-job');
    await followUp.cancel();
    const error = await followUp.result().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ type: 'Cancelled', delivered: 'no' });
    expect(stack.simulator.job(project, 'busy')?.messages).toBe(0);
  });

  test('a terminated workflow', async () => {
    const followUp = await start('stuck-2');
    await stack.client.workflow.getHandle(followUp.workflowId).terminate('by an operator');
    const error = await followUp.result().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      type: 'Terminated',
      message: expect.stringContaining('by an operator'),
      delivered: 'unknown',
    });
  });

  test('a workflow that does not exist', async () => {
    const nobody = stack.followUps.handle(`follow-up/${project}/job-1/nobody`);
    const calls = [
      () => nobody.result(),
      () => nobody.progress(),
      () => nobody.describe(),
      () => nobody.cancel(),
      () => nobody.pollNow(),
      () => nobody.resolve('sent'),
    ];
    for (const call of calls) await expect(call()).rejects.toMatchObject({ type: 'FollowUpNotFound' });
    await expect(nobody.watch().next()).rejects.toMatchObject({ type: 'FollowUpNotFound' });
  });
});

test.concurrent(
  'a reset does not end the wait for the result: the new run does, and the message is not sent twice',
  { tags: 'long' },
  async () => {
    const followUp = await start('slow-1');
    await isPolling('slow-1');
    const outcome = followUp.result().then(
      ({ status }) => status,
      (error: unknown) => error,
    );
    const handle = stack.client.workflow.getHandle(followUp.workflowId);
    const { runId } = await handle.describe();
    const { events } = await handle.fetchHistory();
    const firstTask = events?.find((event) => event.workflowTaskCompletedEventAttributes);
    const newRunId = await resetToTask(stack.client, { workflowId: followUp.workflowId, runId }, firstTask);
    expect(newRunId).not.toBe(runId);
    expect(await outcome).toBe('completed');
    expect(stack.simulator.job(project, 'slow-1')?.messages).toBe(1);
  },
);

test.concurrent('watch yields changes only, and ends with the follow-up', { tags: 'long' }, async () => {
  const followUp = await start('job-2');
  const updates: FollowUpUpdate[] = [];
  for await (const update of followUp.watch({ intervalMs: 50 })) updates.push(update);
  const states = updates.map(({ progress }) => progress?.state);
  expect(states).toContain('polling');
  expect(updates.at(-1)).toMatchObject({ summary: { status: 'completed' }, progress: { state: 'completed' } });
  expect(new Set(updates.map((update) => JSON.stringify(update))).size).toBe(updates.length);
});

test.concurrent('watch and result end at their abort signal, and the follow-up continues', async () => {
  const followUp = await start('stuck-3');
  const controller = new AbortController();
  const result = followUp.result({ signal: controller.signal }).catch((error: unknown) => error);
  let updates = 0;
  for await (const _update of followUp.watch({ signal: controller.signal })) {
    updates++;
    controller.abort(new Error('enough'));
  }
  expect(updates).toBe(1);
  expect(await result).toMatchObject({ message: 'enough' });
  expect((await followUp.describe()).status).toBe('running');
  await stack.client.workflow.getHandle(followUp.workflowId).terminate();
});

test.concurrent('without a worker, the progress is unavailable, and a watch continues to the end', async () => {
  const idle = new FollowUpClient({ client: stack.client, taskQueue: `nobody-${randomUUID()}` });
  const followUp = await idle.start({ projectId: project, jobId: 'job-3', prompt: 'x' });
  await expect(followUp.progress()).rejects.toThrow(WorkerUnavailableError);
  const watch = followUp.watch({ intervalMs: 50 });
  const first = await watch.next();
  expect(first.value).toMatchObject({ summary: { status: 'running' } });
  expect(first.value?.progressUnavailable).toBeTruthy();
  await stack.client.workflow.getHandle(followUp.workflowId).terminate();
  const second = await watch.next();
  expect(second.value).toMatchObject({ summary: { status: 'terminated' } });
  expect((await watch.next()).done).toBe(true);
});

test.concurrent(
  'a budget has no status before its project’s first follow-up, and counts from that one on',
  async () => {
    const budget = stack.followUps.budget(`${project}-budget`);
    expect(await budget.status()).toBeUndefined();
    expect(await budget.state()).toBe('none');
    await stack.followUps.run({ projectId: budget.projectId, jobId: 'job-1', prompt: 'x', ...FAST });
    expect(await budget.status()).toMatchObject({ projectId: budget.projectId, used: 1, limit: 100 });
    expect(await budget.state()).toBe('running');
  },
);

test.concurrent.each([status.UNKNOWN, status.INTERNAL, status.ABORTED])(
  'result keeps waiting after a server error that says nothing about the follow-up (gRPC code %i)',
  async (code) => {
    let failures = 0;
    // An interceptor, because a real server does not fail on demand.
    const outOfOrder: Interceptor = (options, nextCall) => {
      if (!options.method_definition.path.endsWith('GetWorkflowExecutionHistory') || failures >= 3) {
        return new InterceptingCall(nextCall(options));
      }
      failures += 1;
      return new InterceptingCall(nextCall(options), {
        start: (metadata, _listener, next) =>
          next(metadata, {
            onReceiveStatus: (_status, report) => report({ code, details: 'out of order', metadata: new Metadata() }),
          }),
      });
    };
    const connection = Connection.lazy({ address: inject('temporalAddress'), interceptors: [outOfOrder] });
    const followUps = new FollowUpClient({ client: new Client({ connection }), taskQueue: stack.taskQueue });
    const followUp = await followUps.start({ projectId: project, jobId: `job-${code}`, prompt: 'x', ...FAST });
    expect(await followUp.result()).toMatchObject({ status: 'completed' });
    expect(failures).toBe(3);
    await connection.close();
  },
);

describe('while Temporal is unreachable', () => {
  let proxy: TcpProxy;
  let connection: Connection;
  let followUps: FollowUpClient;
  beforeAll(async () => {
    proxy = await TcpProxy.to(inject('temporalAddress'));
    connection = Connection.lazy({ address: proxy.address, interceptors: [] });
    followUps = new FollowUpClient({ client: new Client({ connection }), taskQueue: stack.taskQueue });
  });
  afterEach(() => proxy.up());
  afterAll(async () => {
    await connection.close();
    proxy.close();
  });

  test('result and watch keep waiting and continue', { tags: 'long' }, async () => {
    const { workflowId } = await start('slow-2');
    const result = followUps.handle(workflowId).result();
    const updates: FollowUpUpdate[] = [];
    const watching = (async () => {
      for await (const update of followUps.handle(workflowId).watch({ intervalMs: 100 })) updates.push(update);
    })();
    await eventually('the watch has begun', () => updates.length > 0);
    proxy.down();
    await eventually('the watch says so', () =>
      updates.some(({ progressUnavailable }) => progressUnavailable?.includes('cannot be reached')),
    );
    proxy.up();
    expect(await result).toMatchObject({ status: 'completed' });
    await watching;
    expect(updates.at(-1)).toMatchObject({ summary: { status: 'completed' } });
  });

  test('result and watch give up after their timeout, and say why', async () => {
    const { workflowId } = await start('stuck-4');
    const handle = followUps.handle(workflowId);
    await handle.describe();
    const watch = handle.watch({ intervalMs: 50, reconnectTimeoutMs: 200 });
    await watch.next();
    const result = handle.result({ reconnectTimeoutMs: 200 }).catch((error: unknown) => error);
    proxy.down();
    expect(await result).toBeInstanceOf(TemporalUnreachableError);
    await expect(drain(watch)).rejects.toThrow(TemporalUnreachableError);
    await stack.client.workflow.getHandle(workflowId).terminate();
  });

  test('a wait that is ended rejects with the reason for which it was ended', async () => {
    proxy.down();
    const end = new AbortController();
    const result = followUps.batch('any').result({ signal: end.signal });
    setTimeout(() => end.abort(new Error('no longer wanted')), 500);
    await expect(result).rejects.toThrow('no longer wanted');
  });
});

async function drain(updates: AsyncIterable<FollowUpUpdate>): Promise<void> {
  for await (const _update of updates);
}

/** Forwards connections until it is taken down. Then it resets them and accepts no new ones. */
class TcpProxy {
  #isUp = true;
  readonly #sockets = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    readonly address: string,
  ) {}

  static async to(target: string): Promise<TcpProxy> {
    const [host = '', port = ''] = target.split(':');
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const bound = server.address();
    const proxy = new TcpProxy(server, `127.0.0.1:${typeof bound === 'object' && bound ? bound.port : 0}`);
    server.on('connection', (near) => {
      if (!proxy.#isUp) return void near.resetAndDestroy();
      const far = connect(Number(port), host);
      for (const [socket, other] of [
        [near, far],
        [far, near],
      ] as const) {
        proxy.#sockets.add(socket);
        socket.pipe(other);
        socket.on('error', () => other.destroy());
        socket.on('close', () => {
          proxy.#sockets.delete(socket);
          other.destroy();
        });
      }
      return undefined;
    });
    return proxy;
  }

  down(): void {
    this.#isUp = false;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  up(): void {
    this.#isUp = true;
  }

  close(): void {
    this.down();
    this.server.close();
  }
}
