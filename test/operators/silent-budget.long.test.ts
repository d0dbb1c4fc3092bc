import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pauseWorkflow, unpauseWorkflow } from '../support/buttons.js';
import type { StartedFollowUp, StartInput } from '../../src/client/index.js';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress'), simulator: { autoCreate: true } });
});
afterAll(() => stack.stop());

const newProject = () => `silent-${randomUUID().slice(0, 8)}`;
const SETTINGS = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };

const start = (projectId: string, jobId: string, input: Partial<StartInput> = {}) =>
  stack.followUps.start({ projectId, jobId, prompt: 'Add tests.', ...FAST, ...input });

function startBudget(projectId: string, taskQueue: string) {
  const workflowId = projectBudgetWorkflowId(projectId);
  return stack.client.workflow.start('projectBudget', {
    workflowId,
    taskQueue,
    args: [{ projectId, settings: SETTINGS }],
  });
}

const isBlocked = (followUp: StartedFollowUp) =>
  eventually('it says that its budget is silent', async () => {
    const { state, waitReason } = await followUp.progress();
    return state === 'blocked' && waitReason === 'budget-silent';
  });

async function secondsOf(what: Promise<unknown>): Promise<number> {
  const fromMs = performance.now();
  await what;
  return (performance.now() - fromMs) / 1_000;
}

describe('a budget without a worker', () => {
  test('lets its follow-ups be cancelled within 20 s at any time, and time out on time', async () => {
    const projectId = newProject();
    await startBudget(projectId, `nobody-${randomUUID()}`);
    const startedAtMs = Date.now();
    const timed = await start(projectId, 'timed', { budgetWaitTimeout: '12s' });
    const early = await start(projectId, 'early');
    const late = await start(projectId, 'late');
    await early.cancel();
    const cancelled = { type: 'Cancelled', delivered: 'no' };
    expect(await secondsOf(expect(early.result()).rejects.toMatchObject(cancelled))).toBeLessThan(20);
    await isBlocked(late);
    await late.cancel();
    expect(await secondsOf(expect(late.result()).rejects.toMatchObject(cancelled))).toBeLessThan(20);
    await expect(timed.result()).rejects.toMatchObject({ type: 'BudgetWaitTimeout', delivered: 'no' });
    const { endedAt = '' } = await timed.describe();
    expect(Date.parse(endedAt) - startedAtMs).toBeLessThan(22_000);
    expect(await stack.followUps.budget(projectId).trouble()).toMatchObject({ kind: 'unattended' });
  });

  test('is named by the follow-up’s details', async () => {
    const projectId = newProject();
    const budget = await startBudget(projectId, `nobody-${randomUUID()}`);
    const followUp = await start(projectId, 'job');
    await isBlocked(followUp);
    const workflow = stack.client.workflow.getHandle(followUp.workflowId);
    const { currentDetails } = await workflow.query<{ currentDetails: string }>('__temporal_workflow_metadata');
    expect(currentDetails).toContain('follow-up doctor');
    await budget.terminate();
    await followUp.cancel();
    await expect(followUp.result()).rejects.toMatchObject({ delivered: 'no' });
  });
});

test.concurrent(
  'a budget that is paused in Temporal says so, and its follow-up continues when it is unpaused',
  async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    await budget.resume();
    await pauseWorkflow(stack.client, budget.workflowId);
    const followUp = await start(projectId, 'job');
    await isBlocked(followUp);
    const fix = `temporal workflow unpause --workflow-id ${budget.workflowId}`;
    expect(await budget.trouble()).toMatchObject({ kind: 'paused', fix });
    await expect(budget.status()).rejects.toMatchObject({ message: expect.stringContaining(fix) });
    await expect(budget.setLimit({ limit: 7 })).rejects.toMatchObject({ message: expect.stringContaining(fix) });
    await expect(budget.restore()).rejects.toMatchObject({
      type: 'BudgetPaused',
      message: expect.stringContaining(fix),
    });
    expect(await budget.state()).toBe('running');
    await unpauseWorkflow(stack.client, budget.workflowId);
    expect(await followUp.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
  },
);

test.concurrent(
  'a follow-up of a budget that is paused in Temporal shows its last place, how old that is, and why',
  async () => {
    const projectId = newProject();
    const budget = stack.followUps.budget(projectId);
    await budget.setLimit({ limit: 1 });
    await start(projectId, 'first');
    await eventually('it is sent', async () => (await budget.status())?.used === 1);
    const followUp = await start(projectId, 'second');
    await eventually('it waits', async () => (await followUp.progress()).state === 'waiting-for-budget');
    const live = await followUp.progress();
    expect(live).toMatchObject({ position: 1 });
    expect(live.asOf).toBeUndefined();

    await pauseWorkflow(stack.client, budget.workflowId);
    const { position, asOf = '', learnedAt } = await followUp.progress();
    expect({ position, asOf }).toEqual({ position: 1, asOf: learnedAt });
    await unpauseWorkflow(stack.client, budget.workflowId);
    await followUp.cancel();
    await expect(followUp.result()).rejects.toMatchObject({ delivered: 'no' });
  },
);
