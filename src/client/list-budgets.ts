import type { Client } from '@temporalio/client';
import { defined } from '../common/index.js';
import {
  type BudgetStatus,
  parseProjectBudgetWorkflowId,
  projectBudgetWorkflowId,
  WorkflowType,
} from '../contract/index.js';
import { fewAtATime, HAS_ENDED, IS_OPEN } from '../temporal/lookups.js';
import type { BudgetHandle } from './budget-handle.js';
import { resultOf } from './calls.js';
import type { WorkflowTrouble } from './health.js';
import { findProjects, listWorkflows } from './temporal.js';

/**
 * A running budget, or one that does not run although follow-ups wait for it. It is idle if it has neither a
 * status nor a reason why there is none.
 */
export interface ListedBudget {
  projectId: string;
  workflowId: string;
  /** Whether a follow-up of the project runs. */
  isNeeded: boolean;
  status?: BudgetStatus;
  /** Why it does not answer. */
  statusUnavailable?: string;
  /** Why it does not run. */
  trouble?: WorkflowTrouble;
}

/** See `FollowUpClient.budgets`. */
export async function* listBudgets(
  client: Client,
  budgetOf: (projectId: string) => BudgetHandle,
  windowMs: number,
): AsyncGenerator<ListedBudget> {
  const since = new Date(Date.now() - windowMs).toISOString();
  const [needed, recent] = await Promise.all([
    findProjects(client, IS_OPEN),
    // Server 1.29 also matches running workflows by CloseTime.
    findProjects(client, `${HAS_ENDED} AND CloseTime >= '${since}'`),
  ]);
  const query = `WorkflowType = '${WorkflowType.projectBudget}' AND ${IS_OPEN}`;
  const projects: string[] = [];
  for await (const { workflowId } of listWorkflows(client, query)) {
    const projectId = parseProjectBudgetWorkflowId(workflowId);
    // Anyone may start a workflow of that type under another id; it fails.
    if (projectId !== undefined) projects.push(projectId);
  }
  const asked = projects.filter((projectId) => needed.has(projectId) || recent.has(projectId));
  const results = new Map(
    await fewAtATime(asked, async (projectId) => {
      const { result, silence } = await resultOf(() => budgetOf(projectId).status());
      return [projectId, defined({ status: result, statusUnavailable: silence })] as const;
    }),
  );
  for (const projectId of projects) {
    const workflowId = projectBudgetWorkflowId(projectId);
    yield { projectId, workflowId, isNeeded: needed.has(projectId), ...results.get(projectId) };
  }
  for (const projectId of [...needed].filter((needing) => !projects.includes(needing))) {
    const trouble = await budgetOf(projectId).trouble();
    if (trouble) yield { projectId, workflowId: trouble.workflowId, isNeeded: true, trouble };
  }
}
