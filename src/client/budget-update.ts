import { randomUUID } from 'node:crypto';
import {
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { ApplicationFailure, type UpdateDefinition, WorkflowNotFoundError } from '@temporalio/common';
import { z } from 'zod';
import {
  type BudgetStatus,
  FailureType,
  type InputIssue,
  parseInput,
  projectBudgetWorkflowId,
  WorkflowType,
} from '../contract/index.js';
import type { ProjectBudgetInput } from '../contract/protocol.js';
import { BudgetStoppedError, BudgetUpdateRejectedError } from './budget-errors.js';
import { budgetStartOptions, type BudgetTarget } from './budget-start.js';
import { InvalidInputError, TemporalUnreachableError, WorkerUnavailableError } from './errors.js';
import { callTemporal } from './temporal-call.js';
import { readTrouble, reasonOf } from './trouble.js';

const issuesSchema = z.looseObject({ issues: z.array(z.object({ field: z.string(), message: z.string() })).min(1) });

/**
 * Gives an order to a budget, and starts the budget where there never was one.
 *
 * @param isRunning asked where no worker answers: throws where Temporal itself is the trouble
 * @throws InvalidInputError, BudgetStoppedError, BudgetUpdateRejectedError, WorkerUnavailableError,
 * TemporalUnreachableError
 */
export async function updateBudget<Args extends unknown[]>(
  target: BudgetTarget,
  update: UpdateDefinition<BudgetStatus, Args>,
  args: Args,
  isRunning: () => Promise<boolean>,
): Promise<BudgetStatus> {
  const { client, projectId, settings } = target;
  const workflowId = projectBudgetWorkflowId(projectId);
  const input: ProjectBudgetInput = { projectId, settings };
  try {
    return await callTemporal(client, () =>
      client.workflow.executeUpdateWithStart(update, {
        args,
        updateId: randomUUID(),
        startWorkflowOperation: new WithStartWorkflowOperation(WorkflowType.projectBudget, {
          ...budgetStartOptions(target),
          args: [input],
          // In place of a stopped budget an empty one would forget what was sent.
          workflowIdReusePolicy: 'REJECT_DUPLICATE',
          workflowIdConflictPolicy: 'USE_EXISTING',
        }),
      }),
    );
  } catch (error) {
    const options = { cause: error };
    const isStopped = error instanceof WorkflowExecutionAlreadyStartedError;
    if (isStopped || (error instanceof WorkflowNotFoundError && !(await isRunning()))) {
      throw new BudgetStoppedError(workflowId, projectId, options);
    }
    if (error instanceof WorkflowUpdateFailedError) {
      const issues = issuesOf(error);
      if (issues) throw new InvalidInputError(issues);
      throw new BudgetUpdateRejectedError(workflowId, error.cause?.message ?? error.message, options);
    }
    const trouble = await readTrouble(client, workflowId);
    if (!trouble && !isDeadline(error)) throw error;
    const reason = trouble ? reasonOf(trouble) : 'no worker is running, or the workers are overloaded';
    throw new WorkerUnavailableError(
      workflowId,
      `${reason}; the command may still take effect once a worker runs`,
      options,
    );
  }
}

/** Rules that only the budget itself could see were broken. */
function issuesOf({ cause }: WorkflowUpdateFailedError): InputIssue[] | undefined {
  if (!(cause instanceof ApplicationFailure) || cause.type !== FailureType.InvalidInput) return undefined;
  const parsed = parseInput(issuesSchema, cause.details?.[0]);
  return parsed.ok ? parsed.value.issues : [{ field: '', message: cause.message }];
}

/** An update waits for a worker: without one it ends at the deadline, just as without a server. */
function isDeadline(error: unknown): boolean {
  const cause = error instanceof TemporalUnreachableError ? error.cause : error;
  return cause instanceof WorkflowUpdateRPCTimeoutOrCancelledError;
}
