import { z } from 'zod';
import { BatchErrorType, terminalStatuses, type FollowUpEnd } from '../contract/index.js';

/** What a part takes for the end of a follow-up: anything else would fail its task. Made when it is asked for. */
export function followUpEndSchema(): z.ZodType<FollowUpEnd> {
  return z.object({
    workflowId: z.string(),
    status: z.enum(terminalStatuses).optional(),
    prLink: z.string().nullable().optional(),
    error: z
      .object({
        type: z.enum(Object.values(BatchErrorType)).catch('Other'),
        message: z.string(),
        delivered: z.enum(['yes', 'no', 'unknown']),
      })
      .optional(),
  });
}
