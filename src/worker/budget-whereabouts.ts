import type { ConnectionLike } from '@temporalio/client';
import type { Logger } from 'pino';
import { projectBudgetWorkflowId } from '../contract/index.js';
import { describeGrpcError, GrpcStatus, grpcStatusOf } from '../temporal/grpc.js';
import type { BudgetMetrics } from './budget-metrics.js';
import { inRounds } from './rounds.js';

/** A budget that is silent for this long may be idle or may run on another worker. */
const SILENT_FOR_MS = 120_000;

/** Time between two rounds. Each silent project costs one small read of Temporal per round. */
const ROUND_EVERY_MS = 120_000;

/** The last completed workflow task is among this many newest events. */
const NEWEST_EVENTS = 20;

/** What {@link dropBudgetsElsewhere} needs. */
export interface WhereaboutsOptions {
  namespace: string;
  /** Of this process's workers. */
  identity: string;
  logger: Logger;
  /** Ends it. */
  signal: AbortSignal;
  /** @default 120_000 */
  silentForMs?: number;
  /** @default 120_000 */
  everyMs?: number;
}

/**
 * Drops the metrics of budgets that another worker runs by now, and of budgets that were stopped: nobody tells a worker
 * that a workflow in its cache continues elsewhere. Resolves when `signal` ends it.
 */
export function dropBudgetsElsewhere(
  connection: ConnectionLike,
  metrics: BudgetMetrics,
  options: WhereaboutsOptions,
): Promise<void> {
  const { logger, signal, silentForMs = SILENT_FOR_MS, everyMs = ROUND_EVERY_MS } = options;
  return inRounds(everyMs, signal, async () => {
    for (const projectId of metrics.silentProjects(silentForMs)) {
      if (signal.aborted) return;
      try {
        if (await runsElsewhere(connection, projectId, options)) metrics.drop(projectId);
      } catch (error) {
        // Its metrics stay until this is known.
        logger.debug({ projectId, reason: describeGrpcError(error) }, 'Cannot tell which worker runs a budget');
      }
    }
  });
}

/** Whether another worker ran the last workflow task of a project's budget, or the budget is stopped. */
async function runsElsewhere(
  connection: ConnectionLike,
  projectId: string,
  { namespace, identity }: WhereaboutsOptions,
): Promise<boolean> {
  try {
    const { history } = await connection.workflowService.getWorkflowExecutionHistoryReverse({
      namespace,
      execution: { workflowId: projectBudgetWorkflowId(projectId) },
      maximumPageSize: NEWEST_EVENTS,
    });
    const events = history?.events ?? [];
    const [newest] = events;
    if (newest?.workflowExecutionTerminatedEventAttributes || newest?.workflowExecutionFailedEventAttributes)
      return true;
    const lastTask = events.find((event) => event.workflowTaskCompletedEventAttributes);
    const lastIdentity = lastTask?.workflowTaskCompletedEventAttributes?.identity;
    return lastIdentity !== undefined && lastIdentity !== identity;
  } catch (error) {
    if (grpcStatusOf(error) === GrpcStatus.notFound) return true;
    throw error;
  }
}
