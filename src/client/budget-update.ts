import { randomUUID } from 'node:crypto';
import {
  type Client,
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { ApplicationFailure, type UpdateDefinition, WorkflowNotFoundError } from '@temporalio/common';
import {
  type BudgetStatus,
  FailureType,
  type InputIssue,
  projectBudgetWorkflowId,
  WorkflowType,
} from '../contract/index.js';
import {
  BudgetStoppedError,
  BudgetUpdateRejectedError,
  InvalidInputError,
  TemporalUnreachableError,
  WorkerUnavailableError,
} from './errors.js';
import { issuesIn } from './result.js';
import { callTemporal } from './temporal-call.js';
import { NO_ANSWER, readTrouble, reasonOf } from './trouble.js';
import { type BudgetSettings, firstBudgetStart } from '../contract/protocol.js';

/** Default settings of a new budget. The limit is the service's own: 100 messages per hour. */
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
  /** Settings of a budget that does not exist yet. */
  settings: BudgetSettings;
}

/**
 * Gives an order to a budget, and starts the budget if there never was one.
 *
 * @param isRunning called if no worker answers; throws if Temporal is the trouble
 * @throws InvalidInputError, BudgetStoppedError, BudgetUpdateRejectedError, WorkerUnavailableError,
 * TemporalUnreachableError
 */
export async function updateBudget<Args extends unknown[]>(
  target: BudgetTarget,
  update: UpdateDefinition<BudgetStatus, Args>,
  args: Args,
  isRunning: () => Promise<boolean>,
): Promise<BudgetStatus> {
  const { client, projectId } = target;
  const workflowId = projectBudgetWorkflowId(projectId);
  try {
    return await callTemporal(client, () =>
      client.workflow.executeUpdateWithStart(update, {
        args,
        updateId: randomUUID(),
        startWorkflowOperation: new WithStartWorkflowOperation(WorkflowType.projectBudget, firstBudgetStart(target)),
      }),
    );
  } catch (error) {
    const options = { cause: error };
    const isStopped = error instanceof WorkflowExecutionAlreadyStartedError;
    if (isStopped || (error instanceof WorkflowNotFoundError && !(await isRunning()))) {
      throw new BudgetStoppedError(projectId, options);
    }
    if (error instanceof WorkflowUpdateFailedError) {
      const issues = issuesOf(error);
      if (issues) throw new InvalidInputError(issues);
      throw new BudgetUpdateRejectedError(projectId, error.cause?.message ?? error.message, options);
    }
    const trouble = await readTrouble(client, workflowId);
    if (!trouble && !isDeadline(error)) throw error;
    const reason = trouble ? reasonOf(trouble) : NO_ANSWER;
    throw new WorkerUnavailableError(
      workflowId,
      `${reason}; the command may still take effect once a worker runs`,
      options,
    );
  }
}

/** The rules that only the budget itself could check. */
function issuesOf({ cause }: WorkflowUpdateFailedError): InputIssue[] | undefined {
  if (!(cause instanceof ApplicationFailure) || cause.type !== FailureType.InvalidInput) return undefined;
  const issues = issuesIn(cause) ?? [];
  return issues.length > 0 ? issues : [{ field: '', message: cause.message }];
}

/** An update waits for a worker: without one it ends at its deadline, as it does without a server. */
function isDeadline(error: unknown): boolean {
  const cause = error instanceof TemporalUnreachableError ? error.cause : error;
  return cause instanceof WorkflowUpdateRPCTimeoutOrCancelledError;
}
