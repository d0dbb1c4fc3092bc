import { describe, expect, test } from 'vitest';
import { sendNonsense } from '../support/buttons.js';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import { eventually, readsAllSignals } from '../support/eventually.js';
import { LIMIT, WINDOW_MS, operatedBudgets } from '../support/operated-budgets.js';

const budgets = operatedBudgets();
const { newProject, start, startTogether, waits, endWell, workflowOf } = budgets;

async function expectNoFailedTask(projectId: string): Promise<void> {
  const { events } = await workflowOf(projectId).fetchHistory();
  expect(events?.filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([]);
}

const detailsOf = async (projectId: string): Promise<string> => {
  const metadata = await workflowOf(projectId).query<{ currentDetails: string }>('__temporal_workflow_metadata');
  return metadata.currentDetails;
};

describe.concurrent('a budget that is asked to cancel', () => {
  test('continues and says so with follow-ups in its queue and a running timer', async () => {
    const projectId = newProject();
    const followUps = await startTogether(projectId, LIMIT + 2);
    await workflowOf(projectId).cancel();
    await eventually('it says so', async () => (await detailsOf(projectId)).includes('asked to cancel'));
    const more = await start(projectId, 1, LIMIT + 2);
    await endWell(projectId, [...followUps, ...more]);
    expect(await budgets.stack.followUps.budget(projectId).state()).toBe('running');
    await expectNoFailedTask(projectId);
  });

  test('continues and says so with an empty queue and no timer', async () => {
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

  test('before its first task continues too', async () => {
    const projectId = newProject();
    const handle = await budgets.stack.client.workflow.start('projectBudget', {
      workflowId: projectBudgetWorkflowId(projectId),
      taskQueue: `${budgets.stack.taskQueue}-budget`,
      args: [{ projectId, settings: { limit: LIMIT, windowMs: WINDOW_MS, reserve: 0, marginMs: 200 } }],
    });
    await handle.cancel();
    await endWell(projectId, await start(projectId, 1));
    expect(await budgets.stack.followUps.budget(projectId).state()).toBe('running');
  });

  test('drops no running follow-up, even if grants to it are on their way', async () => {
    const projectId = newProject();
    const budget = budgets.stack.followUps.budget(projectId);
    await budget.pause();
    const followUps = await start(projectId, LIMIT);
    await waits(projectId, LIMIT);
    // Both arrive in one task, so the grants that it sends are pending when the cancel comes.
    await Promise.all([budget.resume(), workflowOf(projectId).cancel()]);
    await workflowOf(projectId).cancel();
    await endWell(projectId, followUps);
    await expectNoFailedTask(projectId);
  });
});

test.concurrent('a budget skips signals and updates that make no sense', async () => {
  const projectId = newProject();
  const followUps = await startTogether(projectId, LIMIT + 1);
  await sendNonsense(budgets.stack.client, projectBudgetWorkflowId(projectId), ['tell']);
  await readsAllSignals(workflowOf(projectId));
  await endWell(projectId, followUps);
  await expectNoFailedTask(projectId);
});
