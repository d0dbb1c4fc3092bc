import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { budgetTaskQueue, projectBudgetWorkflowId } from '../../src/contract/index.js';
import { BudgetMetrics } from '../../src/worker/budget-metrics.js';
import { workflowBundleOptions } from '../../src/worker/bundle-options.js';
import { connectBudgetClient, makeAcquireRequest } from '../support/budget-client.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

const logger = new DefaultLogger('ERROR');
const newProject = () => `wedged-${randomUUID().slice(0, 8)}`;

describe.concurrent('a budget that a faulty version ran', () => {
  const taskQueue = `wedged-${randomUUID()}`;
  const settings = { limit: 3, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  const projects = [newProject(), newProject(), newProject()] as const;
  let wedged: Stack;

  // A faulty version runs the budgets first, and grants a send of each.
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
    const client = new Client({ connection: await Connection.connect({ address }) });
    const { budget, close } = await connectBudgetClient({ address, taskQueue, limit: 3 });
    await worker.runUntil(async () => {
      for (const projectId of projects) {
        const asked = makeAcquireRequest({ workflowId: `follow-up/${projectId}/before/key`, jobId: 'before' });
        expect(await budget.acquire(projectId, asked)).toMatchObject({ answer: { kind: 'granted' } });
        await budget.tell(projectId, { kind: 'settle', ...asked, outcome: 'sent' }, { isUrgent: true });
      }
      const cancelled = client.workflow.getHandle(projectBudgetWorkflowId(projects[2]));
      await cancelled.cancel();
      await expect(cancelled.result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
    });
    await client.connection.close();
    await close();
    await native.close();
    wedged = await startStack({ address, taskQueue, simulator: { autoCreate: true } });
  });
  afterAll(() => wedged.stop());

  const startHere = (projectId: string) =>
    wedged.followUps.start({ projectId, jobId: 'after', prompt: 'Add tests.', ...FAST });

  test('says that its tasks fail, and is restored with what it knew', async () => {
    const [projectId] = projects;
    const budget = wedged.followUps.budget(projectId);
    const followUp = await startHere(projectId);
    await eventually('it is blocked', async () => (await followUp.progress()).waitReason === 'budget-silent');
    expect(await eventually('it is seen', () => budget.trouble())).toMatchObject({
      kind: 'failing',
      what: expect.stringContaining('Nondeterminism'),
      fix: `follow-up budget restore ${projectId}`,
    });
    const restored = await budget.restore();
    expect(restored).toMatchObject({ from: 'lastState', settings, stopped: { status: 'terminated' } });
    expect(await followUp.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    const audit = await budget.audit();
    expect(audit.map(({ jobId, outcome }) => `${jobId} ${outcome}`)).toEqual(['after sent', 'before sent']);
  });

  test('is restored with what it knew after it was cancelled', async () => {
    const [, , projectId] = projects;
    const budget = wedged.followUps.budget(projectId);
    expect(await budget.trouble()).toMatchObject({ kind: 'closed', fix: `follow-up budget restore ${projectId}` });
    expect(await budget.restore()).toMatchObject({ from: 'lastState', settings, stopped: { status: 'cancelled' } });
    expect((await budget.audit()).map(({ jobId, outcome }) => `${jobId} ${outcome}`)).toEqual(['before sent']);
  });

  test('is restored with what it knew after it was terminated', async () => {
    const [, projectId] = projects;
    const budget = wedged.followUps.budget(projectId);
    await wedged.client.workflow.getHandle(budget.workflowId).terminate('by hand');
    expect(await budget.trouble()).toMatchObject({ kind: 'closed', fix: `follow-up budget restore ${projectId}` });
    expect(await budget.restore()).toMatchObject({ from: 'lastState', settings });
    expect(await (await startHere(projectId)).result()).toMatchObject({ delivery: 'sent' });
    expect((await budget.status())?.used).toBe(2);
  });
});
