import type { ConnectionLike } from '@temporalio/client';
import { budgetTaskQueue } from '../contract/index.js';
import { timestampMs } from './grpc.js';

/** `TASK_QUEUE_TYPE_*` of Temporal's API. */
const QUEUE_TYPE = { workflow: 1, activity: 2 } as const;

/** `WORKER_VERSIONING_MODE_VERSIONED` of Temporal's API. */
const VERSIONED = 2;
const SET_CURRENT = 'temporal worker deployment set-current-version --deployment-name';

export type QueueType = keyof typeof QUEUE_TYPE;

/** A worker that polls, or did in the last 5 min. */
export interface Poller {
  /** `{process id}@{host}/…` */
  identity: string;
  /** Start of its last poll by the server's clock, in epoch milliseconds; a poll waits up to 1 min. */
  polledAtMs?: number;
  /** Set if it has a version, with Temporal's Worker Versioning. */
  isVersioned?: true;
}

export interface TaskQueueState {
  pollers: Poller[];
  /** The command that lets its workers get tasks, if they get none because no version of them is the current one. */
  setCurrent?: string;
}

/** The task queues that a worker polls. */
export function polledQueues(taskQueue: string): [name: string, type: QueueType][] {
  return [
    [taskQueue, 'workflow'],
    [taskQueue, 'activity'],
    [budgetTaskQueue(taskQueue), 'workflow'],
  ];
}

/** Reads who polls a task queue. */
export async function readTaskQueue(
  connection: ConnectionLike,
  namespace: string,
  name: string,
  type: QueueType,
): Promise<TaskQueueState> {
  const request = { namespace, taskQueue: { name }, taskQueueType: QUEUE_TYPE[type] };
  // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
  const { pollers, versioningInfo } = await connection.workflowService.describeTaskQueue(request);
  const found = pollers.map(({ identity, lastAccessTime, deploymentOptions: version }) => {
    const isVersioned = Number(version?.workerVersioningMode) === VERSIONED;
    const polledAt = lastAccessTime && { polledAtMs: timestampMs(lastAccessTime) };
    return { poller: { identity: identity ?? '', ...polledAt, ...(isVersioned && { isVersioned }) }, version };
  });
  const live = found.filter(({ poller }) => stillPolls(poller));
  const hasCurrent =
    versioningInfo?.currentDeploymentVersion?.buildId || live.some(({ poller }) => !poller.isVersioned);
  const { deploymentName, buildId } = live[0]?.version ?? {};
  return {
    pollers: found.map(({ poller }) => poller),
    ...(!hasCurrent &&
      deploymentName &&
      buildId && { setCurrent: `${SET_CURRENT} ${deploymentName} --build-id ${buildId}` }),
  };
}

const POLLS_WITHIN_MS = 90_000;

/** Whether a worker still polls: a poll ends after at most 1 min, and the next one starts at once. */
export function stillPolls({ polledAtMs = 0 }: Poller, nowMs = Date.now()): boolean {
  return nowMs - polledAtMs <= POLLS_WITHIN_MS;
}
