import { defineSignal } from '@temporalio/workflow';
import { z } from 'zod';
import type { PartOrder } from '../batch/orders.js';
import type { PartReport } from '../batch/part.js';
import { BatchErrorType, countFields, type FollowUpEnd, outcomeFields } from '../contract/batch-result.js';
import { type BatchItemsRange, MAX_RESULT_ITEMS } from '../contract/index.js';

/** From a batch to a part. */
export const partOrderSignal = defineSignal<[PartOrder]>('partOrder');

/** From a part to its batch. */
export const partReportSignal = defineSignal<[PartReport]>('partReport');

/**
 * Schemas of the messages that batches and parts accept. Anything else, such as a signal sent by hand, would fail their
 * tasks. This is a function because other workflows load this module too and do not need the schemas.
 */
export function batchMessageSchemas() {
  const count = z.int().min(0);
  const number = z.number().min(0);
  const outcome = outcomeFields({ type: z.enum(BatchErrorType).catch('Other') });
  const followUpEnd: z.ZodType<FollowUpEnd> = z.object({ workflowId: z.string(), ...outcome });
  const partOrder: z.ZodType<PartOrder> = z.object({
    number,
    share: count,
    starts: z.int().min(1),
    everyMs: z.number().min(1),
    reportEveryMs: z.number().min(1),
    cancel: z.literal(true).optional(),
    tellAll: z.literal(true).optional(),
  });
  const partReport: z.ZodType<PartReport> = z.object({
    part: count,
    number,
    order: number,
    open: count,
    counts: z.object(countFields()),
    ended: z.array(z.object({ index: count, ...outcome })),
  });
  return { followUpEnd, partOrder, partReport };
}

/** Options of the activities by which a batch or a part looks up what it missed. */
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
