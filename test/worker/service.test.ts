import { expect, test } from 'vitest';
import { createApiKeys } from '../../src/agent-jobs/index.js';
import { ServerClock } from '../../src/temporal/server-clock.js';
import { createLogger } from '../../src/worker/logging.js';
import { runWorkers, serve, type ServiceParts, type Workers } from '../../src/worker/service.js';
import { notReady, type WorkerStatus } from '../../src/worker/status-server.js';
import { logMemory, testConfig } from './support.js';

/** A Temporal worker that a test lets fail. */
function fakeWorker() {
  let state = 'INITIALIZED';
  let finish: (error?: Error) => void = () => undefined;
  return {
    getState: () => state as ReturnType<Workers['budgets']['getState']>,
    run: () => {
      state = 'RUNNING';
      return new Promise<void>((resolve, reject) => {
        finish = (error) => (error ? reject(error) : resolve());
      });
    },
    /** Ends at once, with nothing under way. */
    shutdown: () => {
      state = 'STOPPED';
      finish();
    },
    /** Its state says so, and its run ends with this error, or never. */
    fail: (error?: Error) => {
      state = 'FAILED';
      if (error) finish(error);
    },
  };
}

test('a worker with a Temporal worker that fails is not ready, lets the other one end, and fails itself', async () => {
  const [followUps, budgets] = [fakeWorker(), fakeWorker()];
  const config = testConfig();
  const describeTaskQueue = async () => ({ pollers: [{ identity: 'me' }] });
  const client = {
    workflowService: { describeTaskQueue },
    withDeadline: (_deadline: number, call: () => unknown) => call(),
  };
  const status: WorkerStatus = { readiness: notReady('starting'), serverClock: new ServerClock() };
  const ending = new AbortController();
  let isClosed = false;
  const service = serve({
    config,
    connections: { client } as unknown as ServiceParts['connections'],
    identity: 'me',
    logger: createLogger({ level: 'silent', format: 'json' }, logMemory()),
    keys: createApiKeys({ key: 'key-for-tests-only' }),
    status,
    workers: { followUps, budgets },
    statusUrl: undefined,
    ending,
    closeAll: async () => void (isClosed = true),
  });
  await service.ready;
  expect(await status.readiness()).toEqual({ ready: true, reason: 'ready' });
  budgets.fail();
  const failed = { ready: false, reason: 'a Temporal worker of this process has failed' };
  await expect.poll(() => status.readiness()).toEqual(failed);
  expect(followUps.getState()).toBe('STOPPED');
  expect(ending.signal.aborted).toBe(true);
  budgets.fail(new Error('Malformed Workflow Completion'));
  await expect(service.run()).rejects.toThrow('Malformed Workflow Completion');
  expect(isClosed).toBe(true);
});

test('a worker waits for a failed Temporal worker to end, but no longer than the limit', async () => {
  const workers = { followUps: fakeWorker(), budgets: fakeWorker() };
  const running = runWorkers(workers, { onEnd: () => workers.followUps.shutdown(), endWithinMs: 1 });
  workers.budgets.fail();
  await expect(running).rejects.toThrow('failed and did not stop');
});
