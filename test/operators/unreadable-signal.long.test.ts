import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { resetWorkflow, signalUnreadably } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, startStack } from '../support/stack.js';

/** Largest difference of clocks. */
const MARGIN_MS = 3_000;

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

test.each(['budget', 'follow-up'])(
  'a %s with a signal that no worker can read names the command that fixes it',
  async (what) => {
    const { client, followUps, simulator } = stack;
    const projectId = `op-${randomUUID().slice(0, 8)}`;
    const budget = followUps.budget(projectId);
    await budget.setLimit({ limit: 0 });
    simulator.addJob({ projectId, jobId: 'job' });
    const followUp = await followUps.start({ projectId, jobId: 'job', prompt: 'Add tests.', ...FAST });
    await eventually('it waits', async () => (await budget.status())?.waitingTotal === 1);

    const { workflowId } = what === 'budget' ? budget : followUp;
    await signalUnreadably(client, workflowId, what === 'budget' ? 'report' : 'pollNow');
    const reset = `temporal workflow reset --type LastWorkflowTask --reapply-exclude Signal --workflow-id ${workflowId} --reason failing`;
    const fix = what === 'budget' ? `follow-up budget restore ${projectId}` : reset;
    const trouble: unknown = expect.objectContaining({ workflowId, kind: 'failing', fix });
    await expect
      .poll(() => followUps.health())
      .toMatchObject({ troubles: expect.arrayContaining([trouble]) as unknown });

    if (what === 'budget') await budget.restore();
    else await resetWorkflow(client, workflowId, 'last', { withoutSignals: true });
    // A grant to a run that was closed more than the margin before was never used.
    const fixedAtMs = Date.now();
    await eventually('the margin is over', () => Date.now() > fixedAtMs + MARGIN_MS);
    await budget.setLimit({ limit: 10 });
    expect(await followUps.handle(followUp.workflowId).result()).toMatchObject({
      status: 'completed',
      delivery: 'sent',
    });
    expect(simulator.ledger.filter((entry) => entry.projectId === projectId)).toHaveLength(1);
  },
);
