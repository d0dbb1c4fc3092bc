import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { deleteWorkflow } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    // A follow-up that does not know how its send ended waits for lease and drain.
    env: { FOLLOW_UP_SEND_TIMEOUT: '6s', FOLLOW_UP_DRAIN: '1s' },
    simulator: { autoCreate: true },
  });
});
afterAll(() => stack.stop());

const newProject = () => `op-${randomUUID().slice(0, 8)}`;
const ledgerOf = (projectId: string) => stack.simulator.ledger.filter((entry) => entry.projectId === projectId);
const start = (projectId: string) =>
  stack.followUps.start({ projectId, jobId: 'job', key: 'key', prompt: 'Add tests.', ...FAST });

test.concurrent('a follow-up that has ended and is deleted is not sent again by a start with its key', async () => {
  const projectId = newProject();
  const followUp = await start(projectId);
  await followUp.result();
  await deleteWorkflow(stack.client, followUp.workflowId);
  await eventually('it is gone', () =>
    followUp.describe().then(
      () => false,
      () => true,
    ),
  );
  const again = await start(projectId);
  expect(again.alreadyStarted).toBe(false);
  await again.result().catch(() => undefined);
  expect(ledgerOf(projectId)).toHaveLength(1);
});

test.concurrent(
  'a second follow-up with the same key, which terminates one during its send, sends nothing and does not know',
  async () => {
    const projectId = newProject();
    stack.simulator.failNext({ method: 'POST', projectId, when: 'after', how: { dripMs: 4_000 } });
    const first = await start(projectId);
    await eventually('its message has arrived', () => ledgerOf(projectId).length === 1);
    const second = await stack.client.workflow.start('followUp', {
      workflowId: first.workflowId,
      taskQueue: stack.taskQueue,
      args: [{ projectId, jobId: 'job', prompt: 'Add tests.', ...FAST }],
      workflowIdConflictPolicy: 'TERMINATE_EXISTING',
    });
    const failure = { type: 'DeliveryUnknown', details: [{ delivered: 'unknown' }] };
    await expect(second.result()).rejects.toMatchObject({ cause: failure });
    expect(ledgerOf(projectId)).toHaveLength(1);
  },
);
