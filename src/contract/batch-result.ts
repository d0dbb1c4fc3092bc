import { z } from 'zod';
import { terminalStatuses, type TerminalStatus } from './agent-job.js';
import { FailureType, type Delivered } from './failures.js';

/** Most items in the result of a batch. */
export const MAX_RESULT_ITEMS = 500;

/** How an item ended without a result: a failure of its follow-up, or what kept that from telling. */
export const BatchErrorType = {
  ...FailureType,
  /** The follow-up could not be started: its workflow id was used before. */
  NotStarted: 'NotStarted',
  /** Somebody terminated the follow-up, or the part of the batch that it belonged to. */
  Terminated: 'Terminated',
  /** Temporal ended the follow-up at a timeout, or it failed in a way that this project does not know. */
  Other: 'Other',
} as const;
export type BatchErrorType = (typeof BatchErrorType)[keyof typeof BatchErrorType];

const batchErrorTypes = Object.values(BatchErrorType);

/** Why an item has no result. */
export interface BatchItemError {
  type: BatchErrorType;
  /** At most 200 characters; the follow-up's own failure has it whole. */
  message: string;
  /** Whether the message reached the service. */
  delivered: Delivered;
}

/** One item of a batch. Neither `status` nor `error`: it has not ended. */
export interface BatchItem {
  /** Its place in the batch, counted from 0. */
  index: number;
  /** Empty where a bad item has none. */
  projectId: string;
  jobId: string;
  /** Of its follow-up, `follow-up/{projectId}/{jobId}/{batchId}:{index}`; empty for a bad item. */
  workflowId: string;
  status?: TerminalStatus | undefined;
  /** Missing where it is longer than 255 characters: then the follow-up's result has it. */
  prLink?: string | null | undefined;
  error?: BatchItemError | undefined;
}

/** Result of the `followUpBatch` workflow. Every item has an outcome, also in a batch that was cancelled. */
export interface FollowUpBatchResult {
  total: number;
  completed: number;
  archived: number;
  /** Agent jobs that failed. */
  failed: number;
  /** Items without a result. `total` is the sum of the four. */
  errors: number;
  /** How many of `errors` may or may not have been delivered. */
  unknown: number;
  errorsByType: Partial<Record<BatchErrorType, number>>;
  /** In the order of the batch; at most 500, and at most 384 KiB of them. */
  items: BatchItem[];
  /** Set where `items` lacks some: the query `batchItems` has them all. */
  truncated?: true | undefined;
  /** Set where the batch was cancelled. */
  cancelled?: true | undefined;
}

/** Schema of {@link FollowUpBatchResult}. A function, for follow-ups, which load this module too, have no use for it. */
export function followUpBatchResultSchema(): z.ZodType<FollowUpBatchResult> {
  const count = z.int().min(0);
  return z.object({
    total: count,
    completed: count,
    archived: count,
    failed: count,
    errors: count,
    unknown: count,
    errorsByType: z.partialRecord(z.enum(batchErrorTypes), count),
    items: z.array(
      z.object({
        index: count,
        projectId: z.string(),
        jobId: z.string(),
        workflowId: z.string(),
        status: z.enum(terminalStatuses).optional(),
        prLink: z.string().nullable().optional(),
        error: z
          .object({
            type: z.enum(batchErrorTypes),
            message: z.string(),
            delivered: z.enum(['yes', 'no', 'unknown']),
          })
          .optional(),
      }),
    ),
    truncated: z.literal(true).optional(),
    cancelled: z.literal(true).optional(),
  });
}
