import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { budgetStatusQuery, projectBudgetWorkflowId } from '../../src/contract/index.js';
import { reportSignal } from '../../src/contract/protocol.js';
import { measureHistories } from '../support/batch.js';
import { askUntilProven, connectBudgetClient, makeAcquireRequest } from '../support/budget-client.js';
import { ScriptedService } from '../support/scripted-service.js';
import { startWorkflowRig, type WorkflowRig } from '../support/workflow-rig.js';

const SENDS = 250;
let rig: WorkflowRig;
let client: Awaited<ReturnType<typeof connectBudgetClient>>;
beforeAll(async () => {
  const address = inject('temporalAddress');
  rig = await startWorkflowRig({ address, agentJobs: new ScriptedService() });
  client = await connectBudgetClient({ address, taskQueue: rig.taskQueue, limit: 10_000 });
});
afterAll(async () => {
  await client.close();
  await rig.stop();
});

test('a budget keeps its runs short, even if no server suggests to continue as new', async () => {
  const { budget } = client;
  const projectId = `short-${randomUUID()}`;
  const workflowId = projectBudgetWorkflowId(projectId);
  const handle = rig.client.workflow.getHandle(workflowId);
  for (let number = 0; number < SENDS; number++) {
    const jobId = `job-${number}`;
    const first = makeAcquireRequest({ workflowId: `follow-up/${projectId}/${jobId}/key`, jobId });
    const { answer, request } = await askUntilProven(budget, projectId, first);
    expect(answer).toMatchObject({ kind: 'granted' });
    // One after another, like entries that share no call.
    await handle.signal(reportSignal, [{ kind: 'settle', ...request, outcome: 'sent' }]);
  }
  const { used } = await handle.query(budgetStatusQuery);
  expect(used).toBe(SENDS);
  const { runs, events, failedTasks } = await measureHistories(rig, workflowId);
  expect(runs).toBeGreaterThan(1);
  // After 1,000 events, a run ends with the first task that answers nobody, and after 1,500 in any case.
  expect(events).toBeLessThan(1_600);
  expect(failedTasks).toBe(0);
});
