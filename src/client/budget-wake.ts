import type { Client } from '@temporalio/client';
import { wakeSignal } from '../contract/index.js';
import { listFollowUps, listQuery } from './list.js';

/** As many as a budget has places for. The others ask again within an hour. */
const MOST_WOKEN = 1_000;
const AT_ONCE = 10;

/**
 * Wakes follow-ups that found their project's budget stopped or silent, so that they ask again at once. A courtesy: they
 * ask again by themselves, so nothing that goes wrong here matters.
 *
 * @param told workflow ids that are known to have been told so. The list of those that show it may be behind.
 */
export async function wakeBlockedFollowUps(
  client: Client,
  projectId: string,
  told: ReadonlySet<string> = new Set(),
): Promise<void> {
  await wake(client, [...told]);
  try {
    const others: string[] = [];
    const query = listQuery({ project: projectId, state: 'blocked' });
    for await (const { workflowId, status } of listFollowUps(client, query)) {
      if (status === 'running' && !told.has(workflowId)) others.push(workflowId);
      if (others.length >= MOST_WOKEN) break;
    }
    await wake(client, others);
  } catch {
    // They go on by themselves.
  }
}

async function wake(client: Client, workflowIds: readonly string[]): Promise<void> {
  for (let next = 0; next < workflowIds.length; next += AT_ONCE) {
    const few = workflowIds.slice(next, next + AT_ONCE);
    await Promise.allSettled(few.map((workflowId) => client.workflow.getHandle(workflowId).signal(wakeSignal)));
  }
}
