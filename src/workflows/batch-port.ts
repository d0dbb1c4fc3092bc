import { CancellationScope, condition, proxyActivities, sleep } from '@temporalio/workflow';
import type { z } from 'zod';
import type { ItemFinder } from '../activities/find-items.js';
import type { FlowPort } from '../batch/flow.js';
import {
  type FindItemsInput,
  type FoundItem,
  foundItemSchema,
  type FoundPart,
  foundPartSchema,
} from '../contract/batch-protocol.js';
import { type BatchItemsRange, MAX_RESULT_ITEMS, parseInput } from '../contract/index.js';

const activities = proxyActivities<ItemFinder>({
  startToCloseTimeout: '2m',
  // After the sends of the batch.
  priority: { priorityKey: 5 },
  retry: { initialInterval: '1s', maximumInterval: '30s' },
});

/** How follow-ups stand, in the order of the items. Asked until Temporal answers, as is {@link findPart}. */
export function findItems(input: FindItemsInput): Promise<FoundItem[]> {
  return untilRead(foundItemSchema.array().length(input.items.length), () => activities.findItems(input));
}

/** Whether a part runs, and otherwise what to start it again with. */
export function findPart(workflowId: string): Promise<FoundPart> {
  return untilRead(foundPartSchema, () => activities.findPart(workflowId));
}

/** Asks until the answer can be read: an operator may fail an activity, or complete it with anything. */
function untilRead<T>(schema: z.ZodType<T>, ask: () => Promise<T>): Promise<T> {
  return CancellationScope.nonCancellable(async () => {
    for (;;) {
      const answer = parseInput(schema, await ask().catch(() => undefined));
      if (answer.ok) return answer.value;
      await sleep('1s', { summary: 'until it asks Temporal again' });
    }
  });
}

/**
 * One timer at a time for everything that a workflow waits for. An earlier time starts another timer; a later one waits
 * for the running timer. (Cancelling a timer costs as many events as letting it fire.) A cancel of the workflow does not
 * stop it.
 *
 * @param summary shown with the timer in the Temporal UI
 * @param wake called when the time has come
 */
export function createFlowPort(summary: string, wake: () => void): FlowPort {
  let nextAtMs = Infinity;
  async function wakeAt(atMs: number): Promise<void> {
    if (atMs >= nextAtMs) return;
    nextAtMs = atMs;
    const waitMs = Math.max(1, Math.ceil(atMs - Date.now()));
    await CancellationScope.nonCancellable(() => sleep(waitMs, { summary }));
    if (nextAtMs !== atMs) return;
    nextAtMs = Infinity;
    wake();
  }
  return { nowMs: () => Date.now(), condition, wakeAt: (atMs) => void wakeAt(atMs) };
}

const DEFAULT_LIMIT = 100;

/** Fills in defaults and clamps the range. */
export function pageRange(range: BatchItemsRange | null | undefined, first: number): { offset: number; limit: number } {
  const { offset = first, limit = DEFAULT_LIMIT } = range ?? {};
  return {
    offset: Number.isSafeInteger(offset) ? Math.max(first, offset) : first,
    limit: Number.isSafeInteger(limit) ? Math.min(MAX_RESULT_ITEMS, Math.max(1, limit)) : DEFAULT_LIMIT,
  };
}

/** Whether a request to another workflow succeeded. */
export function succeeds(request: Promise<unknown>): Promise<boolean> {
  return request.then(
    () => true,
    () => false,
  );
}
