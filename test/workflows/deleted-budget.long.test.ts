import { randomUUID } from 'node:crypto';
import { WorkflowNotFoundError } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { SendMessageOutcome } from '../../src/agent-jobs/index.js';
import { progressQuery, projectBudgetWorkflowId } from '../../src/contract/index.js';
import { wakeSignal } from '../../src/contract/protocol.js';
import { eventually } from '../support/eventually.js';
import { failureOf } from '../support/failure-of.js';
import { ScriptedService } from '../support/scripted-service.js';
import { startWorkflowRig, type WorkflowRig } from '../support/workflow-rig.js';

const BEFORE = { id: 'j', status: 'completed', prLink: 'https://git.example/pull/1' };
const ACTIVE = { id: 'j', status: 'active', prLink: null };
const AFTER = { id: 'j', status: 'completed', prLink: 'https://git.example/pull/2' };

const address = inject('temporalAddress');
const service = new ScriptedService();
let rig: WorkflowRig;
let thaw: () => void;
const frozen = new Promise<SendMessageOutcome>((resolve) => {
  thaw = () => resolve({ outcome: 'unknown' });
});

beforeAll(async () => {
  rig = await startWorkflowRig({
    address,
    agentJobs: service,
    budget: { limit: 1 },
    sendTimeoutMs: 1_000,
    leaseMs: 6_000,
    sendStartToCloseMs: 8_000,
    drainMs: 1_000,
  });
});
afterAll(() => {
  thaw();
  return rig.stop();
});

function newFollowUp(projectId: string) {
  const poll = { initialInterval: 100, maxInterval: 200 };
  return { projectId, jobId: `job-${randomUUID().slice(0, 8)}`, prompt: 'x', poll, settleTime: 0 };
}

/** Deletes a budget, as an operator does, or the retention of closed runs. */
async function terminateAndDelete(projectId: string): Promise<void> {
  const budget = rig.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  await budget.terminate();
  await rig.client.workflowService.deleteWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId: budget.workflowId },
  });
  await eventually('the budget is deleted', () =>
    budget.describe().then(
      () => false,
      (error: unknown) => error instanceof WorkflowNotFoundError,
    ),
  );
}

test('a message whose worker froze in the send is not sent again by the budget that replaces a deleted one', async () => {
  const input = newFollowUp('frozen');
  service.reads(input.jobId, BEFORE);
  let posts = 0;
  service.sends(() => {
    posts += 1;
    return frozen;
  });
  const handle = await rig.start(input);
  await eventually('the message leaves', () => posts === 1);
  await terminateAndDelete(input.projectId);
  expect(await failureOf(handle.result())).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
  expect(await rig.budgetStatus(input.projectId)).toMatchObject({
    used: 1,
    lastSends: [],
    assumedFullUntil: expect.any(String) as string,
  });
  expect([posts, service.received]).toEqual([1, []]);
});

test('after a budget was deleted with its slots used up, the next one lets nobody through for a window, and says why', async () => {
  const first = newFollowUp('spent');
  service.reads(first.jobId, BEFORE, ACTIVE, AFTER);
  await (await rig.start(first)).result();
  const second = newFollowUp('spent');
  service.reads(second.jobId, BEFORE);
  const handle = await rig.start(second);
  const shows = (state: string) => async () => (await handle.query(progressQuery)).state === state;
  await eventually('it waits', shows('waiting-for-budget'));
  await terminateAndDelete('spent');
  const waiting = rig.client.workflow.getHandle(handle.workflowId);
  await waiting.signal(wakeSignal);
  const status = await eventually('a new budget has queued it', () => rig.budgetStatus('spent'));
  expect(status).toMatchObject({ used: 1, waitingTotal: 1, assumedFullUntil: expect.any(String) as string });
  expect(service.received.map(({ jobId }) => jobId)).not.toContain(second.jobId);
  await waiting.cancel();
});
