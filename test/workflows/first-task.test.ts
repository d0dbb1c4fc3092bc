import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { record } from '../support/histories.js';
import { ScriptedService } from '../support/scripted-service.js';
import { startWorkflowRig, type WorkflowRig } from '../support/workflow-rig.js';

let rig: WorkflowRig;
beforeAll(async () => {
  rig = await startWorkflowRig({ address: inject('temporalAddress'), agentJobs: new ScriptedService() });
});
afterAll(() => rig.stop());

test('invalid input ends the follow-up in its first workflow task, which does not fail', async () => {
  const handle = await rig.client.workflow.start('followUp', {
    taskQueue: rig.taskQueue,
    workflowId: `follow-up/p/j/${randomUUID()}`,
    args: [{ projectId: 'p', jobId: 'j', prompt: '' }],
  });
  const outcome = await eventually('the first workflow task has an outcome', async () => {
    const { events } = await handle.fetchHistory();
    const failed = events?.find((event) => event.workflowExecutionFailedEventAttributes);
    const type = failed?.workflowExecutionFailedEventAttributes?.failure?.applicationFailureInfo?.type;
    if (type) return type;
    return events?.some((event) => event.workflowTaskFailedEventAttributes) ? 'a failed workflow task' : undefined;
  });
  if (outcome !== 'InvalidInput') await handle.terminate();
  expect(outcome).toBe('InvalidInput');
  await record(rig.client, 'a follow-up with invalid input', handle.workflowId);
});
