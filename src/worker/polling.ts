import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from '@temporalio/client';
import type { Logger } from 'pino';
import { describeGrpcError, GrpcStatus, grpcStatusOf } from '../temporal/grpc.js';

/** `TASK_QUEUE_TYPE_*` of Temporal's API. */
const taskQueueTypes = { workflow: 1, activity: 2 } as const;

/** A task queue as one of its pollers sees it. */
export interface PolledQueue {
  name: string;
  type: keyof typeof taskQueueTypes;
}

const INTERVAL_MS = 100;

/**
 * Waits until the server lists this worker as a poller of each queue: the SDK itself does not say whether its polls get
 * through. A server that cannot tell counts as one that lists it.
 */
export async function waitUntilPolled(
  connection: Connection,
  {
    namespace,
    identity,
    queues,
    logger,
    signal,
  }: { namespace: string; identity: string; queues: PolledQueue[]; logger: Logger; signal: AbortSignal },
): Promise<void> {
  for (const queue of queues) {
    for (;;) {
      signal.throwIfAborted();
      try {
        const { pollers } = await connection.workflowService.describeTaskQueue({
          namespace,
          taskQueue: { name: queue.name },
          // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
          taskQueueType: taskQueueTypes[queue.type],
        });
        if (pollers.some((poller) => poller.identity === identity)) break;
      } catch (error) {
        signal.throwIfAborted();
        if (grpcStatusOf(error) === GrpcStatus.unimplemented) break;
        logger.debug({ queue: queue.name, reason: describeGrpcError(error) }, 'Cannot tell yet whether it is polled');
      }
      await sleep(INTERVAL_MS, undefined, { signal });
    }
  }
}
