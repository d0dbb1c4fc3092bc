import { type Client, QueryNotRegisteredError, WorkflowUpdateRPCTimeoutOrCancelledError } from '@temporalio/client';
import { type QueryDefinition, WorkflowNotFoundError } from '@temporalio/common';
import { describeGrpcError, grpcStatusOf, isPassingTrouble } from '../temporal/grpc.js';
import { TemporalUnreachableError, WorkerUnavailableError } from './client-errors.js';
import { readTrouble, type WorkflowTrouble } from './health.js';
import { type About, callTemporal, isBetweenRuns, isCutOff } from './temporal.js';

/** Why a workflow is blocked and how to fix it, as text after its name and a colon. */
function reasonOf({ what, fix }: WorkflowTrouble): string {
  return `it ${what}; ${fix}`;
}

/** Why a workflow does not answer without any other trouble. */
const NO_WORKER = 'no worker is running, or the workers are overloaded';

async function reasonOfSilence(client: Client, workflowId: string, error: unknown): Promise<string> {
  if (error instanceof QueryNotRegisteredError) return 'it has not started';
  const trouble = await readTrouble(client, workflowId);
  if (trouble) return reasonOf(trouble);
  if (grpcStatusOf(error) === undefined) return `its result cannot be read: ${describeGrpcError(error)}`;
  return isPassingTrouble(error) || isCutOff(error) ? NO_WORKER : describeGrpcError(error);
}

/**
 * Queries a workflow. Without a worker, as without a server, a query ends at its deadline.
 *
 * @throws WorkerUnavailableError with the reason; TemporalUnreachableError; the SDK's WorkflowNotFoundError
 */
export async function queryWorkflow<Result, Args extends unknown[]>(
  client: Client,
  workflowId: string,
  timeoutMs: number,
  query: QueryDefinition<Result, Args>,
  ...args: Args
): Promise<Result> {
  try {
    const handle = client.workflow.getHandle(workflowId);
    return await client.withDeadline(Date.now() + timeoutMs, () => handle.query(query, ...args));
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) throw error;
    const reason = await reasonOfSilence(client, workflowId, error);
    throw new WorkerUnavailableError(workflowId, reason, { cause: error });
  }
}

/**
 * Sends an update, which waits for a worker like a query.
 *
 * @throws WorkerUnavailableError with the reason; what {@link callTemporal} throws; the SDK's WorkflowUpdateFailedError
 */
export async function sendUpdate<Result>(client: Client, about: About, send: () => Promise<Result>): Promise<Result> {
  const call = () => callTemporal(client, send, about);
  try {
    return await call().catch((error: unknown) => {
      if (isBetweenRuns(error)) return call();
      throw error;
    });
  } catch (error) {
    const cause = error instanceof TemporalUnreachableError ? error.cause : error;
    const isCut = cause instanceof WorkflowUpdateRPCTimeoutOrCancelledError;
    if (!isCut && grpcStatusOf(error) === undefined) throw error;
    const trouble = await readTrouble(client, about.workflowId);
    if (!isCut && !trouble) throw error;
    const reason = `${trouble ? reasonOf(trouble) : NO_WORKER}; the command may still take effect once a worker runs`;
    throw new WorkerUnavailableError(about.workflowId, reason, { cause: error });
  }
}

export async function resultOf<Result>(ask: () => Promise<Result>): Promise<{ result?: Result; silence?: string }> {
  try {
    return { result: await ask() };
  } catch (error) {
    if (!(error instanceof WorkerUnavailableError)) throw error;
    return { silence: error.reason };
  }
}
