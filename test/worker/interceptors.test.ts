import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { createLogger } from '../../src/logging.js';
import { startSimulator, type Simulator } from '../../src/simulator/index.js';
import { startWorker, type StartWorkerOptions } from '../../src/worker.js';
import { FAST } from '../support/stack.js';
import { logMemory, testConfig } from './support.js';

let connection: Connection;
let simulator: Simulator;

beforeAll(async () => {
  connection = await Connection.connect({ address: inject('temporalAddress') });
  simulator = await startSimulator({ turn: { minMs: 300, maxMs: 300 } });
});

afterAll(async () => {
  await simulator.close();
  await connection.close();
});

/** Runs one follow-up to its end on a worker with these options. */
async function runOne(jobId: string, options: Partial<StartWorkerOptions>) {
  const log = logMemory();
  // Its budget lives on the task queue of this worker alone.
  const projectId = `intercepted-${randomUUID().slice(0, 8)}`;
  const config = testConfig({ AGENT_JOBS_BASE_URL: simulator.baseUrl, AGENT_JOBS_API_KEY: simulator.apiKey });
  const worker = await startWorker({
    config,
    logger: createLogger({ level: 'info', format: 'json' }, log),
    ...options,
  });
  try {
    await worker.ready;
    simulator.addJob({ projectId, jobId });
    const client = new Client({ connection, namespace: config.temporal.namespace });
    const followUps = new FollowUpClient({ client, taskQueue: config.taskQueue });
    const handle = await followUps.start({ projectId, jobId, prompt: 'Add a test', ...FAST });
    await handle.result();
    const { events } = await client.workflow.getHandle(handle.workflowId).fetchHistory();
    return { events: events ?? [], log: log.text() };
  } finally {
    await worker.shutdown();
  }
}

test('interceptors of activities and of workflows run, and the log claims nothing else', { tags: 'long' }, async () => {
  const intercepted: string[] = [];
  const activity: ActivityInterceptorsFactory = (context) => ({
    inbound: {
      execute(input, next) {
        intercepted.push(context.info.activityType);
        return next(input);
      },
    },
  });
  const workflowModules = [fileURLToPath(new URL('./workflow-interceptor.js', import.meta.url))];
  const { log } = await runOne('both', { interceptors: { activity: [activity], workflowModules } });
  expect(intercepted).toContain('sendMessage');
  expect(log).toContain('the interceptor saw followUp');
  expect(log).not.toContain('Ignoring');
});

test('every activity and timer of a follow-up has a summary in its history', async () => {
  const { events } = await runOne('summaries', {});
  const steps = events.filter(
    (event) => event.activityTaskScheduledEventAttributes ?? event.timerStartedEventAttributes,
  );
  const summaries = steps.map(({ userMetadata }) => {
    const data = userMetadata?.summary?.data;
    return data ? (JSON.parse(Buffer.from(data).toString()) as string) : undefined;
  });
  expect(summaries).not.toContain(undefined);
  expect(summaries).toEqual(expect.arrayContaining(['send message 1 to summaries', 'watch summaries until end']));
});
