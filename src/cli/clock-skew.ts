import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TemporalSession } from './temporal-session.js';

/** The server refuses long polls with less than 2 s left. */
const POLL_TIMEOUT_MS = 3_000;
const LOOK_INTERVAL_MS = 100;

/**
 * How far this machine's clock is ahead of the Temporal server's, in milliseconds, give or take a round trip. No call
 * of Temporal tells its time, but it notes when a task queue was polled last: so a task queue that nobody else knows is
 * polled, and asked about. It leaves nothing behind. `undefined` where the server does not tell.
 */
export async function measureClockSkew({ connection, config }: TemporalSession): Promise<number | undefined> {
  const { namespace } = config;
  const taskQueue = { name: `follow-up-doctor-${randomUUID()}` };
  const polledAtMs = Date.now();
  const poll = connection
    .withDeadline(polledAtMs + POLL_TIMEOUT_MS, () =>
      connection.workflowService.pollWorkflowTaskQueue({ namespace, taskQueue, identity: 'follow-up-doctor' }),
    )
    .catch(() => undefined);
  try {
    while (Date.now() < polledAtMs + POLL_TIMEOUT_MS) {
      await sleep(LOOK_INTERVAL_MS);
      const { pollers } = await connection.withDeadline(Date.now() + POLL_TIMEOUT_MS, () =>
        // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
        connection.workflowService.describeTaskQueue({ namespace, taskQueue, taskQueueType: 1 }),
      );
      const seen = pollers[0]?.lastAccessTime;
      if (seen) return polledAtMs - (Number(seen.seconds ?? 0) * 1_000 + (seen.nanos ?? 0) / 1e6);
    }
    return undefined;
  } finally {
    await poll;
  }
}
