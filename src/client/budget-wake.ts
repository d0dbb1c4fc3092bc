import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { WAKE_TEN_MS } from '../budget/limits.js';
import { wakeSignal } from '../contract/protocol.js';
import { fewAtATime } from './few-at-a-time.js';
import { listFollowUps, listQuery } from './list.js';
import { isPassingTrouble, isVagueTrouble } from './temporal-call.js';

/** As many as a budget has places for. The others ask again within an hour. */
const MOST_WOKEN = 1_000;
/** Before each repetition. A server that has just come back refuses some calls. */
const PAUSES_MS = [1_000, 4_000, 15_000];

/**
 * Wakes follow-ups that found their project's budget stopped or silent, so that they ask again at once. A call that fails
 * in passing is repeated up to three times. Nothing but time is lost with those that still fail: a follow-up asks again by
 * itself within an hour. Never rejects.
 *
 * @param told workflow ids that are known to have been told so. The list of those that show it may be behind.
 */
export async function wakeBlockedFollowUps(
  client: Client,
  projectId: string,
  told: ReadonlySet<string> = new Set(),
): Promise<void> {
  const wake = async (workflowId: string) => {
    await client.workflow.getHandle(workflowId).signal(wakeSignal);
    await delay(WAKE_TEN_MS);
  };
  const wakeOthers = async () => {
    const others = new Set<string>();
    await persist([listQuery({ project: projectId, state: 'blocked' })], async (query) => {
      for await (const { workflowId, status } of listFollowUps(client, query)) {
        if (status === 'running' && !told.has(workflowId)) others.add(workflowId);
        if (others.size >= MOST_WOKEN) break;
      }
    });
    await persist([...others], wake);
  };
  await Promise.all([persist([...told], wake), wakeOthers()]);
}

/** Does `call` for each item, a few at a time, and again for those where it failed in passing. */
async function persist(
  items: readonly string[],
  call: (item: string) => Promise<void>,
  pausesMs: readonly number[] = PAUSES_MS,
): Promise<void> {
  const failed: string[] = [];
  await fewAtATime(items, (item) =>
    call(item).catch((error: unknown) => {
      if (isPassingTrouble(error) || isVagueTrouble(error)) failed.push(item);
    }),
  );
  const [pauseMs, ...laterPausesMs] = pausesMs;
  if (failed.length === 0 || pauseMs === undefined) return;
  await delay(pauseMs);
  await persist(failed, call, laterPausesMs);
}
