import type { Client } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { callTemporal, DEFAULT_CALL_TIMEOUT_MS } from './temporal-call.js';

/** `TASK_QUEUE_TYPE_*` of Temporal's API. */
const QUEUE_TYPE = { workflow: 1, activity: 2 } as const;

/** Kind of the tasks in a task queue. */
export type QueueType = keyof typeof QUEUE_TYPE;

/** A worker as the server knows it by its polls. The server forgets it 5 min after the last one. */
export interface Poller {
  /** `{process id}@{host}/…` */
  identity: string;
  /** The code that it runs; empty where the server does not tell. */
  build: string;
  /** Begin of its last poll by the server's clock, in epoch milliseconds; a poll waits for up to 1 min. */
  polledAtMs?: number;
}

/**
 * Who polls a task queue, or did within the last 5 min.
 *
 * @throws TemporalUnreachableError
 */
export async function readPollers(
  client: Client,
  name: string,
  type: QueueType,
  timeoutMs: number = DEFAULT_CALL_TIMEOUT_MS,
): Promise<Poller[]> {
  const { namespace } = client.options;
  const request = { namespace, taskQueue: { name }, taskQueueType: QUEUE_TYPE[type] };
  const { pollers } = await callTemporal(
    client,
    // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
    () => client.workflowService.describeTaskQueue(request),
    { timeoutMs },
  );
  return pollers.map(({ identity, lastAccessTime, deploymentOptions, workerVersionCapabilities }) => ({
    identity: identity ?? '',
    build: deploymentOptions?.buildId || workerVersionCapabilities?.buildId || '',
    ...(lastAccessTime && { polledAtMs: tsToMs(lastAccessTime) }),
  }));
}
