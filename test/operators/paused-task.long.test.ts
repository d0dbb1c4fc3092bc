import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { batchItemKey, followUpWorkflowId } from '../../src/contract/index.js';
import { partOrderSignal, partReportSignal, reportSignal, wakeSignal } from '../../src/protocol/index.js';
import { makeItems } from '../support/batch.js';
import { pauseWorkflow, resetWorkflow, unpauseWorkflow } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, startStack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

test('workflows that were paused while a task waited for a worker name the command that fixes them', async () => {
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
    [budget.workflowId, reportSignal.name],
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
      const restore = `follow-up budget restore ${projectId}`;
      const reset = expect.stringMatching(/^temporal workflow reset --type LastWorkflowTask --workflow-id /) as string;
      const trouble = { workflowId, kind: 'failing', fix: workflowId === budget.workflowId ? restore : reset };
      const isFailing = expect.arrayContaining([expect.objectContaining(trouble)]) as unknown;
      await expect.poll(() => followUps.health()).toMatchObject({ troubles: isFailing });
      if (workflowId === budget.workflowId) await budget.restore();
      else await resetWorkflow(client, workflowId, 'last');
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
