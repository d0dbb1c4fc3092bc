import type { Client } from '@temporalio/client';
import { budgetTaskQueue, projectBudgetWorkflowId } from '../contract/index.js';
import type { BudgetSettings } from '../contract/protocol.js';

/** Settings of a new budget where nobody says otherwise. The limit is the service's own: 100 messages an hour. */
export const DEFAULT_BUDGET_SETTINGS: BudgetSettings = {
  limit: 100,
  windowMs: 3_600_000,
  reserve: 0,
  marginMs: 2_000,
};

/** A project's budget, and what is needed to start it. */
export interface BudgetTarget {
  client: Client;
  projectId: string;
  /** Base name of the task queues. */
  taskQueue: string;
  /** Of a budget that does not exist yet. */
  settings: BudgetSettings;
}

/** What every start of a budget's workflow says alike. */
export function budgetStartOptions({ projectId, taskQueue }: Pick<BudgetTarget, 'projectId' | 'taskQueue'>) {
  return {
    workflowId: projectBudgetWorkflowId(projectId),
    taskQueue: budgetTaskQueue(taskQueue),
    staticSummary: `Message budget of project ${projectId}`,
  };
}
