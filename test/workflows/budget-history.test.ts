import { randomUUID } from 'node:crypto';
import { Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { createBudgetClient, type BudgetClient } from '../../src/activities/index.js';
import { budgetStatusQuery, projectBudgetWorkflowId } from '../../src/contract/index.js';
import { measureHistories } from '../support/batch.js';
import { ScriptedService } from '../support/scripted-service.js';
import { startWorkflowRig, type WorkflowRig } from '../support/workflow-rig.js';

const SENDS = 250;
let rig: WorkflowRig;
let budget: BudgetClient;
const connections: Connection[] = [];
beforeAll(async () => {
  const address = inject('temporalAddress');
  rig = await startWorkflowRig({ address, agentJobs: new ScriptedService() });
  const acquireConnection = await Connection.connect({ address, interceptors: [] });
  const connection = await Connection.connect({ address });
  connections.push(acquireConnection, connection);
  const { taskQueue } = rig;
  const settings = { limit: 10_000, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  budget = createBudgetClient({ acquireConnection, connection, namespace: 'default', taskQueue, settings });
});
afterAll(async () => {
  await Promise.all(connections.map((connection) => connection.close()));
  await rig.stop();
});

test('a run of a budget is short enough to be replayed in a moment, where no server asks for it', async () => {
  const projectId = `short-${randomUUID()}`;
  for (let number = 0; number < SENDS; number++) {
    const jobId = `job-${number}`;
    const send = { workflowId: `follow-up/${projectId}/${jobId}/key`, sendNumber: 1, jobId, token: randomUUID() };
    const { answer } = await budget.acquire(projectId, {
      ...send,
      lane: 'interactive',
      hold: false,
      attemptScheduledAtMs: Date.now(),
      firstRunStartedAtMs: Date.now(),
      leaseMs: 60_000,
      drainMs: 120_000,
    });
    expect(answer.kind).toBe('granted');
    await budget.settle(projectId, { ...send, outcome: 'sent' });
  }
  const workflowId = projectBudgetWorkflowId(projectId);
  const { used } = await rig.client.workflow.getHandle(workflowId).query(budgetStatusQuery);
  expect(used).toBe(SENDS);
  const { runs, events, failedTasks } = await measureHistories(rig, workflowId);
  expect(runs).toBeGreaterThan(1);
  // It ends with the first task after 1,000 events that answers nobody.
  expect(events).toBeLessThan(2_000);
  expect(failedTasks).toBe(0);
});
