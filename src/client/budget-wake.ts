import type { Client } from '@temporalio/client';
import { wakeSignal } from '../contract/index.js';
import { listFollowUps, listQuery } from './list.js';

/** As many as a budget has places for. The others ask again within an hour. */
const MOST_WOKEN = 1_000;
const AT_ONCE = 10;

/**
 * Wakes follow-ups that found their project's budget stopped, so that they ask again at once. A courtesy: they ask
 * again by themselves, so nothing that goes wrong here matters.
 */
export async function wakeBlockedFollowUps(client: Client, projectId: string): Promise<void> {
  try {
    const workflowIds: string[] = [];
    for await (const { workflowId, status } of listFollowUps(
      client,
      listQuery({ project: projectId, state: 'blocked' }),
    )) {
      if (status === 'running') workflowIds.push(workflowId);
      if (workflowIds.length >= MOST_WOKEN) break;
    }
    for (let next = 0; next < workflowIds.length; next += AT_ONCE) {
      const few = workflowIds.slice(next, next + AT_ONCE);
      await Promise.allSettled(few.map((workflowId) => client.workflow.getHandle(workflowId).signal(wakeSignal)));
    }
  } catch {
    // They go on by themselves.
  }
}
