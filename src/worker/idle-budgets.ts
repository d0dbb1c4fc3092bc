import type { Client } from '@temporalio/client';
import type { WorkerDeploymentVersion } from '@temporalio/common';
import type { Logger } from 'pino';
import { readCurrentBuild } from '../client/trouble.js';
import { budgetTaskQueue, WorkflowType } from '../contract/index.js';
import { reportSignal } from '../contract/protocol.js';
import { describeGrpcError } from '../temporal/grpc.js';
import { inRounds } from './rounds.js';

/** Time between two rounds. A round reads the current version, and lists budgets if that is this worker's. */
const ROUND_EVERY_MS = 60_000;

/** What {@link moveIdleBudgets} needs. */
export interface MoveIdleBudgetsOptions {
  /** Of this worker. */
  version: WorkerDeploymentVersion;
  /** Task queue of the follow-ups. */
  taskQueue: string;
  logger: Logger;
  /** Ends it. */
  signal: AbortSignal;
  /** @default 60_000 */
  everyMs?: number;
}

/**
 * Moves idle budgets to this worker's version when that has become the current one. The run of a budget stays on the
 * version that it began on, and continues as new on the current one at its next workflow task. An idle budget has no
 * next task, and would keep the old version's workers from ever being stopped. So it gets an empty report. Resolves when
 * `signal` ends it.
 */
export function moveIdleBudgets(client: Client, options: MoveIdleBudgetsOptions): Promise<void> {
  const { version, logger, signal, everyMs = ROUND_EVERY_MS } = options;
  return inRounds(everyMs, signal, async () => {
    try {
      const current = await readCurrentBuild(client, version.deploymentName);
      if (current === version.buildId) await wakeBudgetsOfOtherVersions(client, options);
    } catch (error) {
      logger.debug({ reason: describeGrpcError(error) }, 'Cannot look for budgets of other versions');
    }
  });
}

async function wakeBudgetsOfOtherVersions(
  client: Client,
  { version: { deploymentName, buildId }, taskQueue, logger, signal }: MoveIdleBudgetsOptions,
): Promise<void> {
  const query =
    `WorkflowType = '${WorkflowType.projectBudget}' AND TaskQueue = '${budgetTaskQueue(taskQueue)}' ` +
    `AND ExecutionStatus = 'Running' AND TemporalWorkerDeployment = '${deploymentName}' ` +
    `AND TemporalWorkerDeploymentVersion != '${deploymentName}:${buildId}'`;
  for await (const { workflowId } of client.workflow.list({ query })) {
    if (signal.aborted) return;
    const handle = client.workflow.getHandle(workflowId);
    const { raw } = await handle.describe();
    // It has a task already. If no worker of its version takes it, more reports would only make its history longer.
    if (raw.pendingWorkflowTask) continue;
    await handle.signal(reportSignal, []);
    logger.info({ workflowId }, 'Moves an idle budget to this version of the worker');
  }
}
