import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { pauseWorkflow, resetWorkflow, unpauseWorkflow } from '../support/buttons.js';
import { FollowUpClient } from '../../src/client/index.js';
import { batchItemKey, followUpWorkflowId } from '../../src/contract/index.js';
import { tellSignal, wakeSignal } from '../../src/contract/protocol.js';
import { partOrderSignal, partReportSignal } from '../../src/contract/batch-protocol.js';
import { makeItems } from '../support/batch.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

test('workflows that were paused while a task waited for a worker name the way out, which heals them', async () => {
  const { client, followUps, simulator, taskQueue } = stack;
  const projectId = `op-${randomUUID().slice(0, 8)}`;
  const budget = followUps.budget(projectId);
  await budget.setLimit({ limit: 0 });
  const items = makeItems(stack, [projectId], 3, FAST);
  const batch = await followUps.startBatch({ id: projectId, items });
  await eventually('all wait', async () => (await budget.status())?.waitingTotal === 3);
  const followUp = followUpWorkflowId({ projectId, jobId: items[0]!.jobId, key: batchItemKey(projectId, 0) });
  const [part = ''] = await batch.parts();
  const signals = new Map([
    [budget.workflowId, tellSignal.name],
    [batch.workflowId, partReportSignal.name],
    [part, partOrderSignal.name],
    [followUp, wakeSignal.name],
  ]);

  await stack.stopWorker();
  for (const [workflowId, signal] of signals) {
    await client.workflow.getHandle(workflowId).signal(signal, null);
    await pauseWorkflow(client, workflowId);
    await unpauseWorkflow(client, workflowId);
  }
  const { baseUrl: AGENT_JOBS_BASE_URL, apiKey: AGENT_JOBS_API_KEY } = simulator;
  const next = await startStack({
    address: inject('temporalAddress'),
    taskQueue,
    env: { AGENT_JOBS_BASE_URL, AGENT_JOBS_API_KEY },
  });
  try {
    for (const workflowId of signals.keys()) {
      const trouble = await eventually(`${workflowId} fails`, async () => {
        const found = await troubleOf(workflowId);
        return found?.kind === 'failing' ? found : undefined;
      });
      if (workflowId === budget.workflowId) {
        expect(trouble.fix).toBe(`follow-up budget restore ${projectId}`);
        await budget.restore();
      } else {
        expect(trouble.fix).toMatch(/^temporal workflow reset --type LastWorkflowTask --workflow-id /);
        await resetWorkflow(client, workflowId, 'last');
      }
    }
    await budget.setLimit({ limit: 10 });
    // The new budget cannot know whether the follow-up that was reset has sent, so that one sends nothing.
    expect(await batch.result()).toMatchObject({ total: 3, completed: 2, errors: 1 });
    const reset = followUps.handle(followUp).result();
    await expect(reset).rejects.toMatchObject({ type: 'Closed', delivered: 'unknown' });
    expect(simulator.ledger.filter((entry) => entry.projectId === projectId)).toHaveLength(2);
  } finally {
    await next.stop();
  }
});

test('a follow-up that was paused before its first task fails at it', async () => {
  const { client } = stack;
  const projectId = `op-${randomUUID().slice(0, 8)}`;
  const taskQueue = `nobody-${projectId}`;
  const followUps = new FollowUpClient({ client, taskQueue });
  const followUp = await followUps.start({ projectId, jobId: 'job', prompt: 'Add tests.', ...FAST });
  await pauseWorkflow(client, followUp.workflowId);
  await unpauseWorkflow(client, followUp.workflowId);
  const next = await startStack({ address: inject('temporalAddress'), taskQueue });
  try {
    await eventually('it fails', async () => (await followUp.trouble())?.kind === 'failing');
  } finally {
    await client.workflow.getHandle(followUp.workflowId).terminate('by hand');
    await next.stop();
  }
});

async function troubleOf(workflowId: string) {
  const { troubles } = await stack.followUps.health();
  return troubles.find((trouble) => trouble.workflowId === workflowId);
}
