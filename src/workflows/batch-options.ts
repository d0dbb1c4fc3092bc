import { type BatchItemsRange, MAX_RESULT_ITEMS } from '../contract/index.js';

/** Options of the activities that ask Temporal what happened. They are repeated until it answers. */
export const FIND_OPTIONS = {
  startToCloseTimeout: '2m',
  // After the sends of the batch.
  priority: { priorityKey: 5 },
  retry: { initialInterval: '1s', maximumInterval: '30s' },
} as const;

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
export async function succeeds(request: Promise<unknown>): Promise<boolean> {
  try {
    await request;
    return true;
  } catch {
    return false;
  }
}
