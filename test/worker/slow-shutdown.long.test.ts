import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { projectBudgetWorkflowId, WorkflowType } from '../../src/contract/index.js';
import type { ProjectBudgetInput } from '../../src/contract/protocol.js';
import { createLogger } from '../../src/logging.js';
import { type Simulator, startSimulator } from '../../src/simulator/index.js';
import { startWorker } from '../../src/worker.js';
import { eventually } from '../support/eventually.js';
import { logMemory, testConfig } from './support.js';

/** The deadline of a call to a budget. */
const ASK_MAY_TAKE_MS = 5_000;
/** How much longer it may take on a busy machine. */
const GRACE_MS = 30_000;

let connection: Connection;
let simulator: Simulator;
beforeAll(async () => {
  connection = await Connection.connect({ address: inject('temporalAddress') });
  simulator = await startSimulator();
});
afterAll(async () => {
  await simulator.close();
  await connection.close();
});

test('a worker that shuts down while a budget does not answer waits for the ask, and ends cleanly', async () => {
  const config = testConfig({
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
    FOLLOW_UP_SEND_TIMEOUT: '1s',
  });
  const client = new Client({ connection });
  const projectId = `unheard-${randomUUID()}`;
  const input: ProjectBudgetInput = { projectId, settings: config.budget };
  const budget = await client.workflow.start(WorkflowType.projectBudget, {
    workflowId: projectBudgetWorkflowId(projectId),
    // No worker polls it.
    taskQueue: `${config.taskQueue}-nobody`,
    args: [input],
  });
  simulator.addJob({ projectId, jobId: 'job' });
  const worker = await startWorker({
    config,
    logger: createLogger({ level: 'info', format: 'json' }, logMemory()),
  });
  await worker.ready;
  const followUps = new FollowUpClient({ client, taskQueue: config.taskQueue });
  const { workflowId } = await followUps.start({ projectId, jobId: 'job', prompt: 'Add a test' });
  const followUp = client.workflow.getHandle(workflowId);
  try {
    await eventually('the budget is asked', async () => {
      const { raw } = await followUp.describe();
      return (raw.pendingActivities ?? []).some(({ lastStartedTime }) => lastStartedTime);
    });
    const toldAtMs = performance.now();
    await worker.shutdown();
    // This throws if the shutdown cut the activity short.
    await worker.run();
    expect(performance.now() - toldAtMs).toBeLessThan(ASK_MAY_TAKE_MS + GRACE_MS);
    expect(simulator.ledger).toHaveLength(0);
  } finally {
    await worker.shutdown().catch(() => undefined);
    await followUp.terminate();
    await budget.terminate();
  }
});
