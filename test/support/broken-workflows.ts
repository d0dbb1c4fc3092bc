import { CancellationScope, sleep } from '@temporalio/workflow';
import { projectBudget as rightBudget } from '../../src/workflows/project-budget.js';

/**
 * A faulty version of the budget: it leaves a timer in its history that the right code does not make, and a cancel ends
 * it.
 */
export async function projectBudget(...args: Parameters<typeof rightBudget>): Promise<never> {
  sleep('30 days').catch(() => undefined);
  return Promise.race([rightBudget(...args), CancellationScope.current().cancelRequested]);
}
