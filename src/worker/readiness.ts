import type { ConnectionLike } from '@temporalio/client';
import type { Logger } from 'pino';
import type { WatchedApiKeys } from '../agent-jobs/index.js';
import { budgetTaskQueue } from '../contract/index.js';
import { describeGrpcError, GrpcStatus, grpcStatusOf, pause } from '../temporal/grpc.js';
import type { Readiness } from './status-server.js';

/** How long an answer is valid: so long, all probes together cost one check of Temporal and of the files. */
const CHECK_EVERY_MS = 5_000;

/** Below the usual timeouts of probes. */
const TEMPORAL_DEADLINE_MS = 2_000;

/** Creates a check whether a worker that has become ready still reaches Temporal and its API keys. */
export function watchReadiness(
  connection: ConnectionLike,
  keys: WatchedApiKeys,
  options: { namespace: string; taskQueue: string; checkEveryMs?: number },
): () => Promise<Readiness> {
  const { namespace, taskQueue, checkEveryMs = CHECK_EVERY_MS } = options;
  let latest: Promise<Readiness> | undefined;
  let goodUntilMs = 0;

  async function check(): Promise<Readiness> {
    try {
      await connection.withDeadline(Date.now() + TEMPORAL_DEADLINE_MS, () =>
        connection.workflowService.describeTaskQueue({ namespace, taskQueue: { name: taskQueue } }),
      );
    } catch (error) {
      if (grpcStatusOf(error) !== GrpcStatus.UNIMPLEMENTED) {
        return { ready: false, reason: `Temporal cannot be reached: ${describeGrpcError(error)}` };
      }
    }
    const problem = await keys.problem();
    if (problem !== undefined) return { ready: false, reason: `a file of API keys cannot be used: ${problem}` };
    return { ready: true, reason: 'ready' };
  }

  return () => {
    if (latest === undefined || performance.now() >= goodUntilMs) {
      goodUntilMs = Infinity;
      latest = check().finally(() => (goodUntilMs = performance.now() + checkEveryMs));
    }
    return latest;
  };
}

/** `TASK_QUEUE_TYPE_*` of Temporal's API. */
const [WORKFLOW, ACTIVITY] = [1, 2] as const;

const INTERVAL_MS = 100;

/**
 * Waits until the server lists this worker as a poller of its task queues, because the SDK does not say whether its
 * polls get through. A server without that feature counts as listing it.
 */
export async function waitUntilPolled(
  connection: ConnectionLike,
  options: { namespace: string; taskQueue: string; identity: string; logger: Logger; signal: AbortSignal },
): Promise<void> {
  const { namespace, taskQueue, identity, logger, signal } = options;
  const isPolled = async (name: string, taskQueueType: typeof WORKFLOW | typeof ACTIVITY): Promise<boolean> => {
    try {
      const request = { namespace, taskQueue: { name }, taskQueueType };
      const { pollers } = await connection.withDeadline(Date.now() + TEMPORAL_DEADLINE_MS, () =>
        // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
        connection.workflowService.describeTaskQueue(request),
      );
      return pollers.some((poller) => poller.identity === identity);
    } catch (error) {
      if (grpcStatusOf(error) === GrpcStatus.UNIMPLEMENTED) return true;
      logger.debug({ queue: name, reason: describeGrpcError(error) }, 'Cannot tell yet whether it is polled');
      return false;
    }
  };
  const queues = [
    [taskQueue, WORKFLOW],
    [taskQueue, ACTIVITY],
    [budgetTaskQueue(taskQueue), WORKFLOW],
  ] as const;
  for (const [name, type] of queues) {
    while (!(await isPolled(name, type))) await pause(INTERVAL_MS, signal);
  }
}
