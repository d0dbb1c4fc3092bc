import { expect, test } from 'vitest';
import { projectBudgetWorkflowId, WorkflowType } from '../../src/contract/index.js';
import { pauseWorkflow, unpauseWorkflow } from '../support/buttons.js';
import { reaches, useStack } from '../support/project.js';

const operated = useStack();
const { newProject } = operated;

test.concurrent('follow-ups of a budget without a worker name the doctor, can be cancelled, and time out', async () => {
  const project = newProject();
  const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  const budget = await operated.stack.client.workflow.start(WorkflowType.projectBudget, {
    workflowId: projectBudgetWorkflowId(project.id),
    taskQueue: `nobody-${project.id}`,
    args: [{ projectId: project.id, settings }],
  });
  const timed = await project.start('timed', { budgetWaitTimeout: '12s' });
  const early = await project.start('early');
  const late = await project.start('late');
  await early.cancel();
  await reaches(late, 'blocked', 'budget-silent');
  const currentDetails = expect.stringContaining('follow-up doctor') as string;
  expect(await project.workflow(late).query('__temporal_workflow_metadata')).toMatchObject({ currentDetails });
  await late.cancel();
  // Only the budget knows whether an earlier run with the same key has delivered the message.
  for (const followUp of [early, late]) {
    await expect(followUp.result()).rejects.toMatchObject({ type: 'Cancelled', delivered: 'unknown' });
  }
  await expect(timed.result()).rejects.toMatchObject({ type: 'BudgetWaitTimeout', delivered: 'unknown' });
  expect(await project.budget.trouble()).toMatchObject({ kind: 'unattended' });
  await budget.terminate();
});

test.concurrent(
  'a budget that is paused in Temporal says so; its follow-ups show their last place, and continue later',
  async () => {
    const project = newProject();
    const { budget } = project;
    await budget.setLimit({ limit: 1 });
    const first = await project.start('first');
    await project.deliveries(1);
    const second = await project.start('second');
    expect((await reaches(second, 'waiting-for-budget', 'slot')).asOf).toBeUndefined();
    await pauseWorkflow(operated.stack.client, budget.workflowId);
    const { position, asOf, learnedAt } = await second.progress();
    expect({ position, asOf }).toEqual({ position: 1, asOf: learnedAt });
    const third = await project.start('third');
    await reaches(third, 'blocked', 'budget-silent');
    const fix = `temporal workflow unpause --workflow-id ${budget.workflowId}`;
    const message = expect.stringContaining(fix) as string;
    expect(await budget.trouble()).toMatchObject({ kind: 'paused', fix });
    await expect(budget.status()).rejects.toMatchObject({ message });
    await expect(budget.setLimit({ limit: 7 })).rejects.toMatchObject({ message });
    await expect(budget.restore()).rejects.toMatchObject({ type: 'BudgetPaused', message });
    expect(await budget.state()).toBe('running');
    await unpauseWorkflow(operated.stack.client, budget.workflowId);
    await budget.setLimit({ limit: 7 });
    await project.endWell([first, second, third]);
  },
);
