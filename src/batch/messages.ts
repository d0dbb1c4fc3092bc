import { z } from 'zod';
import { BatchErrorType, terminalStatuses, type FollowUpEnd } from '../contract/index.js';
import type { PartOrder } from './orders.js';
import type { PartReport } from './part.js';

/**
 * What batches and parts take for a message: anything else, such as a signal sent by hand, would fail their tasks. Made
 * when it is asked for, since other workflows load this module, too.
 */
export function batchMessageSchemas() {
  const count = z.int().min(0);
  const number = z.number().min(0);
  const outcome = {
    status: z.enum(terminalStatuses).optional(),
    prLink: z.string().nullable().optional(),
    error: z
      .object({
        type: z.enum(BatchErrorType).catch('Other'),
        message: z.string(),
        delivered: z.enum(['yes', 'no', 'unknown']),
      })
      .optional(),
  };
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
    counts: z.object({
      completed: count,
      archived: count,
      failed: count,
      errors: count,
      unknown: count,
      errorsByType: z.partialRecord(z.enum(BatchErrorType), count),
    }),
    ended: z.array(z.object({ index: count, ...outcome })),
  });
  return { followUpEnd, partOrder, partReport };
}
