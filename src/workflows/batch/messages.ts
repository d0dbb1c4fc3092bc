import { defineSignal } from '@temporalio/workflow';
import type { PartOrder } from '../../batch/orders.js';
import type { PartReport } from '../../batch/part.js';
import { type BatchItemsRange, MAX_RESULT_ITEMS } from '../../contract/index.js';

/** From a batch to a part. */
export const partOrderSignal = defineSignal<[PartOrder]>('partOrder');

/** From a part to its batch. */
export const partReportSignal = defineSignal<[PartReport]>('partReport');

/** Of the activities by which a batch or a part looks up what it was not told. */
export const LOOK_UP_OPTIONS = {
  startToCloseTimeout: '2m',
  retry: { initialInterval: '1s', maximumInterval: '30s', maximumAttempts: 10 },
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
