import { CancellationScope, condition, patched, proxyActivities, sleep } from '@temporalio/workflow';
import type { z } from 'zod';
import type { ItemFinder } from '../activities/find-items.js';
import type { FlowPort } from '../batch/base-flow.js';
import { type BatchItemsRange, MAX_RESULT_ITEMS, parseInput } from '../contract/index.js';
import {
  type FindItemsInput,
  type FoundItem,
  foundItemSchema,
  type FoundPart,
  foundPartSchema,
} from '../protocol/index.js';

const activities = proxyActivities<ItemFinder>({
  startToCloseTimeout: '2m',
  // Below the sends of the batch.
  priority: { priorityKey: 5 },
  retry: { initialInterval: '1s', maximumInterval: '30s' },
});

/** The outcomes of follow-ups, in the order of the items. Like {@link findPart}, it repeats until Temporal answers. */
export function findItems(input: FindItemsInput): Promise<FoundItem[]> {
  return untilRead(foundItemSchema.array().length(input.items.length), () => activities.findItems(input));
}

/** Whether a part runs, and if not, the items to restart it with. */
export function findPart(workflowId: string): Promise<FoundPart> {
  return untilRead(foundPartSchema, () => activities.findPart(workflowId));
}

/** Repeats until the result is valid: an operator may fail an activity or complete it with any value. */
function untilRead<T>(schema: z.ZodType<T>, ask: () => Promise<T>): Promise<T> {
  return CancellationScope.nonCancellable(async () => {
    for (;;) {
      const result = parseInput(schema, await ask().catch(() => undefined));
      if (result.ok) return result.value;
      await sleep('1s', { summary: 'until it asks Temporal again' });
    }
  });
}

/**
 * One timer for everything that a workflow waits for. An earlier time starts another timer, and a later one waits for
 * the running timer: cancelling a timer costs as many events as letting it fire. A cancel of the workflow does not stop
 * it.
 *
 * @param summary shown with the timer in the Temporal UI
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
  return { nowMs: () => Date.now(), patched, condition, wakeAt: (atMs) => void wakeAt(atMs) };
}

const DEFAULT_LIMIT = 100;

/** The range with defaults, clamped to the limits. */
export function pageRange(range: BatchItemsRange | null | undefined, first: number): { offset: number; limit: number } {
  const { offset = first, limit = DEFAULT_LIMIT } = range ?? {};
  return {
    offset: Number.isSafeInteger(offset) ? Math.max(first, offset) : first,
    limit: Number.isSafeInteger(limit) ? Math.min(MAX_RESULT_ITEMS, Math.max(1, limit)) : DEFAULT_LIMIT,
  };
}

export function succeeds(request: Promise<unknown>): Promise<boolean> {
  return request.then(
    () => true,
    () => false,
  );
}
