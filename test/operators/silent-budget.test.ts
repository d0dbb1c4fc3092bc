import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pauseWorkflow, unpauseWorkflow } from '../../chaos/buttons.js';
import type { StartedFollowUp, StartInput } from '../../src/client/index.js';
import { budgetTaskQueue, projectBudgetWorkflowId } from '../../src/contract/index.js';
import { BudgetMetrics } from '../../src/worker/budget-metrics.js';
import { workflowBundleOptions } from '../../src/worker/bundle-options.js';
import { connectBudgetClient, makeAcquireRequest } from '../support/budget-client.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const logger = new DefaultLogger('ERROR');
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
  test('lets its follow-ups be cancelled within 10 s, at any time, and end with BudgetWaitTimeout on time', async () => {
    const projectId = newProject();
    await startBudget(projectId, `nobody-${randomUUID()}`);
    const startedAtMs = Date.now();
    const timed = await start(projectId, 'timed', { budgetWaitTimeout: '12s' });
    const early = await start(projectId, 'early');
    const late = await start(projectId, 'late');
    await eventually('it asks', async () => (await early.progress()).state === 'sending');
    await early.cancel();
    const cancelled = { type: 'Cancelled', delivered: 'unknown' };
    expect(await secondsOf(expect(early.result()).rejects.toMatchObject(cancelled))).toBeLessThan(10);
    await isBlocked(late);
    await late.cancel();
    expect(await secondsOf(expect(late.result()).rejects.toMatchObject(cancelled))).toBeLessThan(10);
    await expect(timed.result()).rejects.toMatchObject({ type: 'BudgetWaitTimeout' });
    const { endedAt = '' } = await timed.describe();
    expect(Date.parse(endedAt) - startedAtMs).toBeLessThan(22_000);
    expect(await stack.followUps.budget(projectId).trouble()).toMatchObject({ kind: 'unattended' });
  });

  test('is named by the follow-up’s details, by its trouble and by the worker’s log', async () => {
    const projectId = newProject();
    const budget = await startBudget(projectId, `nobody-${randomUUID()}`);
    const followUp = await start(projectId, 'job');
    await isBlocked(followUp);
    const workflow = stack.client.workflow.getHandle(followUp.workflowId);
    const { currentDetails } = await workflow.query<{ currentDetails: string }>('__temporal_workflow_metadata');
    expect(currentDetails).toContain('follow-up doctor');
    expect(stack.log()).toContain('The budget does not answer');
    await budget.terminate();
    await followUp.cancel();
    await expect(followUp.result()).rejects.toMatchObject({ type: 'Cancelled' });
  });
});

test('a budget that is paused in Temporal says so, and all goes on when it is unpaused', async () => {
  const projectId = newProject();
  const budget = stack.followUps.budget(projectId);
  await budget.resume();
  await pauseWorkflow(stack.client, budget.workflowId);
  const followUp = await start(projectId, 'job');
  await isBlocked(followUp);
  const mend = `temporal workflow unpause --workflow-id ${budget.workflowId}`;
  expect(await budget.trouble()).toMatchObject({ kind: 'paused', mend });
  await expect(budget.status()).rejects.toMatchObject({ message: expect.stringContaining(mend) });
  await expect(budget.setLimit({ limit: 7 })).rejects.toMatchObject({ message: expect.stringContaining(mend) });
  await expect(budget.restore()).rejects.toMatchObject({
    name: 'BudgetPausedError',
    message: expect.stringContaining(mend),
  });
  expect(await budget.state()).toBe('running');
  await unpauseWorkflow(stack.client, budget.workflowId);
  expect(await followUp.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
});

describe('a budget whose tasks fail', () => {
  const taskQueue = `wedged-${randomUUID()}`;
  const settings = { ...SETTINGS, limit: 3 };
  const projects = [newProject(), newProject()] as const;
  let wedged: Stack;

  // A version with a mistake runs the budgets first, and grants a send of each.
  beforeAll(async () => {
    const address = inject('temporalAddress');
    const native = await NativeConnection.connect({ address });
    const workflowsPath = join(import.meta.dirname, '..', 'support', 'broken-workflows.ts');
    const workflowBundle = await bundleWorkflowCode({ ...workflowBundleOptions(workflowsPath), logger });
    const worker = await Worker.create({
      connection: native,
      taskQueue: budgetTaskQueue(taskQueue),
      workflowBundle,
      sinks: new BudgetMetrics().sinks,
    });
    const { budget, close } = await connectBudgetClient({ address, taskQueue, limit: 3 });
    await worker.runUntil(async () => {
      for (const projectId of projects) {
        const asked = makeAcquireRequest({ workflowId: `follow-up/${projectId}/before/key`, jobId: 'before' });
        expect(await budget.acquire(projectId, asked)).toMatchObject({ answer: { kind: 'granted' } });
        await budget.settle(projectId, { ...asked, outcome: 'sent' });
      }
    });
    await close();
    await native.close();
    wedged = await startStack({ address, taskQueue, simulator: { autoCreate: true } });
  });
  afterAll(() => wedged.stop());

  const startHere = (projectId: string) =>
    wedged.followUps.start({ projectId, jobId: 'after', prompt: 'Add tests.', ...FAST });

  test('says so, and is restored with what it knew', async () => {
    const [projectId] = projects;
    const budget = wedged.followUps.budget(projectId);
    const followUp = await startHere(projectId);
    await isBlocked(followUp);
    expect(await eventually('it is seen', () => budget.trouble())).toMatchObject({
      kind: 'failing',
      what: expect.stringContaining('Nondeterminism'),
      mend: `follow-up budget restore ${projectId}`,
    });
    const restored = await budget.restore();
    expect(restored).toMatchObject({ from: 'lastState', settings, stopped: { status: 'terminated' } });
    expect(await followUp.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    const audit = await budget.audit();
    expect(audit.map(({ jobId, outcome }) => `${jobId} ${outcome}`)).toEqual(['after sent', 'before sent']);
  });

  test('and that was then terminated is restored with what it knew', async () => {
    const [, projectId] = projects;
    const budget = wedged.followUps.budget(projectId);
    await wedged.client.workflow.getHandle(budget.workflowId).terminate('by hand');
    expect(await budget.trouble()).toMatchObject({ kind: 'closed', mend: `follow-up budget restore ${projectId}` });
    expect(await budget.restore()).toMatchObject({ from: 'lastState', settings });
    expect(await (await startHere(projectId)).result()).toMatchObject({ delivery: 'sent' });
    expect((await budget.status())?.used).toBe(2);
  });
});
