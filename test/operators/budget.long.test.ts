import { describe, expect, test } from 'vitest';
import { resetWorkflow } from '../../chaos/buttons.js';
import { eventually } from '../support/eventually.js';
import { LIMIT, operatedBudgets } from '../support/operated-budgets.js';

const budgets = operatedBudgets();
const { newProject, start, waits, endWell, workflowOf } = budgets;

describe.concurrent('a budget that is reset', () => {
  test.each(['first', 'last'] as const)(
    'to its %s task continues by itself with all that it knew, and sends nothing over the limit or twice',
    async (point) => {
      const projectId = newProject();
      const budget = budgets.stack.followUps.budget(projectId);
      await budget.setLimit({ limit: LIMIT, window: '15s' });
      const followUps = await start(projectId, LIMIT + 2);
      await waits(projectId, 2);
      const sent = (await budget.audit()).map(({ workflowId, grantedAt }) => ({ workflowId, grantedAt }));
      await resetWorkflow(budgets.stack.client, budget.workflowId, point);
      const more = await start(projectId, 1, LIMIT + 2);
      await eventually('it runs again', async () => (await budget.status())?.waitingTotal === 3);
      const audit = await budget.audit();
      expect(audit.map(({ workflowId, grantedAt }) => ({ workflowId, grantedAt }))).toEqual(sent);
      await endWell(projectId, [...followUps, ...more], 15_000);
    },
  );

  test('several times after it was terminated still knows everything', async () => {
    const projectId = newProject();
    const budget = budgets.stack.followUps.budget(projectId);
    await budget.setLimit({ limit: LIMIT, window: '15s' });
    const followUps = await start(projectId, LIMIT);
    await endWell(projectId, followUps);
    await workflowOf(projectId).terminate('by hand');
    await resetWorkflow(budgets.stack.client, budget.workflowId, 'first');
    followUps.push(...(await start(projectId, 1, LIMIT)));
    await waits(projectId, 1);
    await resetWorkflow(budgets.stack.client, budget.workflowId, 'last');
    await resetWorkflow(budgets.stack.client, budget.workflowId, 'first');
    await endWell(projectId, followUps, 15_000);
    expect(await budget.audit()).toHaveLength(LIMIT + 1);
  });
});
