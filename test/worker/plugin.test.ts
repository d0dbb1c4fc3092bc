import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { expect, inject, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { loadConfig } from '../../src/config/index.js';
import { createLogger } from '../../src/logging.js';
import { startSimulator } from '../../src/simulator/index.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { createFollowUpPlugin } from '../../src/worker.js';
import { FAST } from '../support/stack.js';

test('a foreign worker runs follow-ups through a plugin, and shuts down with them', async () => {
  const address = inject('temporalAddress');
  const simulator = await startSimulator({ turn: { minMs: 300, maxMs: 600 } });
  const taskQueue = `plugin-${randomUUID()}`;
  const config = loadConfig({
    TEMPORAL_ADDRESS: address,
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
    FOLLOW_UP_TASK_QUEUE: taskQueue,
    FOLLOW_UP_STATUS_ADDRESS: 'off',
    FOLLOW_UP_LOG_LEVEL: 'error',
  });
  const plugin = createFollowUpPlugin({ config, logger: createLogger(config.logging) });
  const nativeConnection = await NativeConnection.connect({ address });
  const connection = await Connection.connect({ address });
  try {
    const theirs = await Worker.create({
      connection: nativeConnection,
      taskQueue: `theirs-${taskQueue}`,
      activities: { greet: () => Promise.resolve('hello') },
      plugins: [plugin],
    });
    await ensureSearchAttributes(connection, 'default');
    const running = theirs.run();
    simulator.addJob({ projectId: taskQueue, jobId: 'job' });
    const followUps = new FollowUpClient({ client: new Client({ connection }), taskQueue });
    const result = await followUps.run({ projectId: taskQueue, jobId: 'job', prompt: 'Go on.', ...FAST });
    expect(result.status).toBe('completed');
    expect(theirs.options.taskQueue).toBe(`theirs-${taskQueue}`);
    theirs.shutdown();
    await running;
  } finally {
    await connection.close();
    await nativeConnection.close();
    await simulator.close();
  }
});
