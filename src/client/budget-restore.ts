import { WorkflowExecutionAlreadyStartedError, type WorkflowExecutionDescription } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { z } from 'zod';
import { budgetStatusQuery, parseInput, projectBudgetWorkflowId, WorkflowType } from '../contract/index.js';
import {
  budgetStartOptions,
  type BudgetSettings,
  type ProjectBudgetInput,
  projectBudgetInputSchema,
} from '../contract/protocol.js';
import type { BudgetTarget } from './budget-update.js';
import {
  BudgetNotFoundError,
  BudgetPausedError,
  BudgetRunningError,
  InvalidInputError,
  WorkerUnavailableError,
} from './errors.js';
import { readRunStart } from '../temporal/run-start.js';
import { type ExecutionStatus, toExecutionStatus } from './summary.js';
import { callTemporal } from './temporal-call.js';
import { queryWorkflow, readTrouble } from './trouble.js';

const QUERY_TIMEOUT_MS = 5_000;

/** Options of `BudgetHandle.restore`. */
export interface RestoreOptions {
  /**
   * Also count every slot that is left as taken, so that nothing is sent for one window: for an operator who does not
   * trust Temporal's list of follow-ups.
   *
   * @default false
   */
  assumeFull?: boolean;
}

/** A budget that runs again. Instants are ISO 8601 in UTC. */
export interface RestoredBudget {
  projectId: string;
  workflowId: string;
  /** The run that was started. It first counts what was sent before it. */
  runId: string;
  /** Those of the previous run, if a worker can still read them, else what that run was started with. */
  settings: BudgetSettings;
  /** The previous run, and how it ended. */
  stopped: { runId: string; status: ExecutionStatus; at: string };
}

const optionsSchema = z.strictObject({ assumeFull: z.boolean().optional() });

/** See `BudgetHandle.restore`. */
export async function restoreBudget(target: BudgetTarget, options: RestoreOptions): Promise<RestoredBudget> {
  const parsed = parseInput(optionsSchema, options);
  if (!parsed.ok) throw new InvalidInputError(parsed.issues);
  const { client, projectId } = target;
  const last = await stopFailing(target);
  const settings = await lastSettings(target, last);
  const input: ProjectBudgetInput = { projectId, settings, ...(parsed.value.assumeFull && { assumeFull: true }) };
  try {
    const { firstExecutionRunId } = await callTemporal(client, () =>
      client.workflow.start(WorkflowType.projectBudget, {
        ...budgetStartOptions(target),
        args: [input],
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
        workflowIdConflictPolicy: 'FAIL',
      }),
    );
    const { runId, status, closeTime = new Date() } = last;
    const stopped = { runId, status: toExecutionStatus(status.name), at: closeTime.toISOString() };
    return { projectId, workflowId: last.workflowId, runId: firstExecutionRunId, settings, stopped };
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    throw new BudgetRunningError(projectId, { cause: error });
  }
}

/** The budget's last run, closed. A run whose workflow tasks fail is terminated here. */
async function stopFailing(target: BudgetTarget): Promise<WorkflowExecutionDescription> {
  const { client, projectId } = target;
  const last = await describe(target);
  if (!isRunning(last)) return last;
  const { workflowId, runId } = last;
  const trouble = await readTrouble(client, workflowId);
  if (trouble?.kind === 'paused') throw new BudgetPausedError(projectId, trouble);
  if (trouble?.kind !== 'failing') throw new BudgetRunningError(projectId);
  try {
    await callTemporal(client, () =>
      client.workflow.getHandle(workflowId, runId).terminate('its tasks failed: follow-up budget restore'),
    );
  } catch (error) {
    // It has continued, or somebody else was faster.
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
  const stopped = await describe(target);
  if (isRunning(stopped)) throw new BudgetRunningError(projectId);
  return stopped;
}

function isRunning({ status }: WorkflowExecutionDescription): boolean {
  return toExecutionStatus(status.name) === 'running';
}

async function describe({ client, projectId }: BudgetTarget): Promise<WorkflowExecutionDescription> {
  const workflowId = projectBudgetWorkflowId(projectId);
  try {
    return await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    throw new BudgetNotFoundError(projectId, { cause: error });
  }
}

/** What the budget had last: an operator may have changed it. */
async function lastSettings(
  target: BudgetTarget,
  { workflowId, runId }: WorkflowExecutionDescription,
): Promise<BudgetSettings> {
  const { client } = target;
  const settings = await startSettings(target, { workflowId, runId });
  try {
    const status = await queryWorkflow(client, workflowId, QUERY_TIMEOUT_MS, budgetStatusQuery, Date.now());
    const { limit, windowMs, reserve } = status;
    return { ...settings, limit, windowMs, reserve };
  } catch (error) {
    // No worker runs, or none can read its past.
    if (!(error instanceof WorkerUnavailableError)) throw error;
    return settings;
  }
}

/** What a run of the budget was started with, or continued with. */
async function startSettings(
  { client, settings }: BudgetTarget,
  { workflowId, runId }: Pick<WorkflowExecutionDescription, 'workflowId' | 'runId'>,
): Promise<BudgetSettings> {
  try {
    const [input, carried] = await callTemporal(client, () => readRunStart(client, workflowId, runId));
    const ofRun = z.object({ settings: projectBudgetInputSchema.shape.settings });
    return ofRun.safeParse(carried).data?.settings ?? ofRun.parse(input).settings;
  } catch {
    // Its history is gone, or was written with another data converter.
    return settings;
  }
}
