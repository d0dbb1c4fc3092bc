import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { resetWorkflow, sendNonsense } from '../../chaos/buttons.js';
import type { StartedFollowUp } from '../../src/client/index.js';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const LIMIT = 3;
const WINDOW_MS = 4_000;
let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    env: { FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`, FOLLOW_UP_BUDGET_WINDOW: '4s', FOLLOW_UP_MARGIN: '200ms' },
    simulator: { autoCreate: true },
  });
});
afterAll(() => stack.stop());

const newProject = () => `op-${randomUUID().slice(0, 8)}`;
const ledgerOf = (projectId: string) => stack.simulator.ledger.filter((entry) => entry.projectId === projectId);
const workflowOf = (projectId: string) => stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));

function start(projectId: string, count: number, from = 0): Promise<StartedFollowUp[]> {
  return Promise.all(
    Array.from({ length: count }, (_, index) =>
      stack.followUps.start({ projectId, jobId: `job-${from + index}`, prompt: 'Add tests.', ...FAST }),
    ),
  );
}

/** All of them end well, each was sent once, and no window held more than the limit. */
async function endWell(projectId: string, followUps: readonly StartedFollowUp[]): Promise<void> {
  const results = await Promise.all(followUps.map((followUp) => followUp.result()));
  expect(results.map(({ status, delivery }) => `${status} ${delivery}`)).toEqual(followUps.map(() => 'completed sent'));
  expect(
    ledgerOf(projectId)
      .map(({ jobId }) => jobId)
      .sort(),
  ).toEqual(results.map(({ jobId }) => jobId).sort());
  expect(stack.simulator.maxInAnyWindow(projectId, WINDOW_MS)).toBeLessThanOrEqual(LIMIT);
}

const waits = (projectId: string, count: number) =>
  eventually(`${count} wait`, async () => {
    const status = await stack.followUps.budget(projectId).status();
    return status?.waitingTotal === count && status.unsettled === 0;
  });

async function expectNoFailedTask(projectId: string): Promise<void> {
  const { events } = await workflowOf(projectId).fetchHistory();
  expect(events?.filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([]);
}

const detailsOf = async (projectId: string): Promise<string> => {
  const metadata = await workflowOf(projectId).query<{ currentDetails: string }>('__temporal_workflow_metadata');
  return metadata.currentDetails;
};

describe('a budget that is asked to cancel', () => {
  test('goes on and says so, with follow-ups in its queue and a timer that runs', async () => {
    const projectId = newProject();
    const followUps = await start(projectId, LIMIT + 2);
    await waits(projectId, 2);
    await workflowOf(projectId).cancel();
    await eventually('it says so', async () => (await detailsOf(projectId)).includes('asked to cancel'));
    const more = await start(projectId, 1, LIMIT + 2);
    await endWell(projectId, [...followUps, ...more]);
    expect(await stack.followUps.budget(projectId).state()).toBe('running');
    await expectNoFailedTask(projectId);
  });

  test('goes on with nobody in its queue and no timer', async () => {
    const projectId = newProject();
    const first = await start(projectId, 1);
    await endWell(projectId, first);
    await workflowOf(projectId).cancel();
    await workflowOf(projectId).cancel();
    await eventually('it says so', async () => (await detailsOf(projectId)).includes('asked to cancel'));
    await endWell(projectId, [...first, ...(await start(projectId, 1, 1))]);
    expect(await detailsOf(projectId)).toContain('follow-up budget pause');
    await expectNoFailedTask(projectId);
  });

  test('before its first task goes on as well', async () => {
    const projectId = newProject();
    const handle = await stack.client.workflow.start('projectBudget', {
      workflowId: projectBudgetWorkflowId(projectId),
      taskQueue: `${stack.taskQueue}-budget`,
      args: [{ projectId, settings: { limit: LIMIT, windowMs: WINDOW_MS, reserve: 0, marginMs: 200 } }],
    });
    await handle.cancel();
    await endWell(projectId, await start(projectId, 1));
    expect(await stack.followUps.budget(projectId).state()).toBe('running');
  });

  test('drops no follow-up that lives, though wakes were on their way to it', async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    await budget.pause();
    const followUps = await start(projectId, LIMIT);
    await waits(projectId, LIMIT);
    // Both in one task: the wakes that it sends are pending when the cancel comes.
    await Promise.all([budget.resume(), workflowOf(projectId).cancel()]);
    await workflowOf(projectId).cancel();
    await endWell(projectId, followUps);
    await expectNoFailedTask(projectId);
  });
});

test('a budget passes over signals and updates that make no sense', async () => {
  const projectId = newProject();
  const followUps = await start(projectId, LIMIT + 1);
  await waits(projectId, 1);
  await sendNonsense(stack.client, projectBudgetWorkflowId(projectId), ['settle', 'finish', 'withdraw']);
  await endWell(projectId, followUps);
  await expectNoFailedTask(projectId);
});

describe('a budget that is reset', () => {
  test.each(['first', 'last'] as const)(
    'to its %s task goes on by itself with all that it knew: nothing is sent over the limit, or twice',
    async (point) => {
      const projectId = newProject();
      const budget = stack.followUps.budget(projectId);
      await budget.setLimit({ limit: LIMIT, window: '15s' });
      const followUps = await start(projectId, LIMIT + 2);
      await waits(projectId, 2);
      const sent = (await budget.audit()).map(({ workflowId, grantedAt }) => ({ workflowId, grantedAt }));
      await resetWorkflow(stack.client, budget.workflowId, point);
      const more = await start(projectId, 1, LIMIT + 2);
      await eventually('it runs again', async () => (await budget.status())?.waitingTotal === 3);
      const audit = await budget.audit();
      expect(audit.map(({ workflowId, grantedAt }) => ({ workflowId, grantedAt }))).toEqual(sent);
      await endWell(projectId, [...followUps, ...more]);
      expect(stack.simulator.maxInAnyWindow(projectId, 15_000)).toBeLessThanOrEqual(LIMIT);
    },
  );

  test('twice, and after it was terminated, still knows all', async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    await budget.setLimit({ limit: LIMIT, window: '15s' });
    const followUps = await start(projectId, LIMIT);
    await endWell(projectId, followUps);
    await workflowOf(projectId).terminate('by hand');
    await resetWorkflow(stack.client, budget.workflowId, 'first');
    followUps.push(...(await start(projectId, 1, LIMIT)));
    await waits(projectId, 1);
    await resetWorkflow(stack.client, budget.workflowId, 'last');
    await resetWorkflow(stack.client, budget.workflowId, 'first');
    await endWell(projectId, followUps);
    expect(stack.simulator.maxInAnyWindow(projectId, 15_000)).toBeLessThanOrEqual(LIMIT);
    expect(await budget.audit()).toHaveLength(LIMIT + 1);
  });

  test('is named while nobody asks it, and is restored by hand as well', async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    const followUps = await start(projectId, 1);
    await endWell(projectId, followUps);
    await resetWorkflow(stack.client, budget.workflowId, 'first');
    await eventually('it has ended', async () => (await budget.state()) === 'stopped');
    expect(await budget.trouble()).toMatchObject({ kind: 'closed', mend: `follow-up budget restore ${projectId}` });
    expect(await budget.restore()).toMatchObject({ from: 'lastState', stopped: { status: 'failed' } });
    expect(await budget.audit()).toHaveLength(1);
  });
});
