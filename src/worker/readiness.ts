import type { ConnectionLike } from '@temporalio/client';
import type { Logger } from 'pino';
import type { WatchedApiKeys } from '../agent-jobs/index.js';
import { describeGrpcError, GrpcStatus, grpcStatusOf, pause } from '../temporal/grpc.js';
import { polledQueues, type QueueType, readPollers } from '../temporal/lookups.js';
import type { Readiness } from './status-server.js';

/** How long a result is valid, so that many probes cost one check. */
const CHECK_EVERY_MS = 5_000;

/** Below the usual timeouts of probes. */
const TEMPORAL_DEADLINE_MS = 2_000;

/** Creates a check whether a ready worker still reaches Temporal and its API keys. */
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
        readPollers(connection, namespace, taskQueue, 'workflow'),
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

const INTERVAL_MS = 100;

/**
 * Waits until the server lists this worker as a poller of its task queues, because the SDK does not report whether its
 * polls arrive. A server without that feature counts as listing it.
 */
export async function waitUntilPolled(
  connection: ConnectionLike,
  options: { namespace: string; taskQueue: string; identity: string; logger: Logger; signal: AbortSignal },
): Promise<void> {
  const { namespace, taskQueue, identity, logger, signal } = options;
  const isPolled = async (name: string, type: QueueType): Promise<boolean> => {
    try {
      const pollers = await connection.withDeadline(Date.now() + TEMPORAL_DEADLINE_MS, () =>
        readPollers(connection, namespace, name, type),
      );
      return pollers.some((poller) => poller.identity === identity);
    } catch (error) {
      if (grpcStatusOf(error) === GrpcStatus.UNIMPLEMENTED) return true;
      logger.debug(
        { queue: name, reason: describeGrpcError(error) },
        'It is not known yet whether the queue is polled',
      );
      return false;
    }
  };
  for (const [name, type] of polledQueues(taskQueue)) {
    while (!(await isPolled(name, type))) await pause(INTERVAL_MS, signal);
  }
}
