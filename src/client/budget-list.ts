import type { Client } from '@temporalio/client';
import { type BudgetStatus, parseProjectBudgetWorkflowId, WorkflowType } from '../contract/index.js';
import type { BudgetHandle } from './budget-handle.js';
import { WorkerUnavailableError } from './errors.js';
import { listWorkflows } from './list.js';

/** One running budget of the namespace. */
export interface ListedBudget {
  projectId: string;
  workflowId: string;
  /** Missing where the budget does not answer. */
  status?: BudgetStatus;
  /** Why there is no status. */
  statusUnavailable?: string;
}

/** Budgets that are asked at once: each question costs a worker a query. */
const ASKED_AT_ONCE = 10;

/** See `FollowUpClient.budgets`. */
export async function* listBudgets(
  client: Client,
  budgetOf: (projectId: string) => BudgetHandle,
): AsyncGenerator<ListedBudget> {
  const query = `WorkflowType = '${WorkflowType.projectBudget}' AND ExecutionStatus = 'Running'`;
  let asked: Promise<ListedBudget>[] = [];
  for await (const { workflowId } of listWorkflows(client, query)) {
    const projectId = parseProjectBudgetWorkflowId(workflowId);
    // Anybody may start a workflow of that type under another id: it fails by itself.
    if (projectId === undefined) continue;
    asked.push(look(budgetOf(projectId)));
    if (asked.length < ASKED_AT_ONCE) continue;
    yield* await Promise.all(asked);
    asked = [];
  }
  yield* await Promise.all(asked);
}

async function look(budget: BudgetHandle): Promise<ListedBudget> {
  const { projectId, workflowId } = budget;
  try {
    const status = await budget.status();
    return { projectId, workflowId, ...(status && { status }) };
  } catch (error) {
    if (!(error instanceof WorkerUnavailableError)) throw error;
    return { projectId, workflowId, statusUnavailable: error.reason };
  }
}
