import { sleep } from '@temporalio/workflow';
import { projectBudget as rightBudget } from '../../src/workflows/project-budget.js';

/** A budget as a version with a mistake runs it: it leaves a timer in its history that the right code contradicts. */
export async function projectBudget(...args: Parameters<typeof rightBudget>): Promise<never> {
  void sleep('30 days');
  return rightBudget(...args);
}
