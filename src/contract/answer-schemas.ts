import { z } from 'zod';
import { type BatchItemsPage, type BatchStatus, countFields, outcomeFields } from './batch-result.js';
import { waitReasons } from './budget-messages.js';
import { endStates } from './choices.js';
import { FailureType, type FailureDetails } from './failures.js';
import type { FollowUpProgress } from './follow-up-messages.js';
import { agentJobSchema, followUpResultSchema } from './follow-up-result.js';

/**
 * Schemas of the answers of workflows. The build makes the JSON Schemas in `schemas` from them, and nothing else loads
 * them.
 *
 * @module
 */

const instant = z.iso.datetime();
const count = z.int().min(0);
const delivered = z.enum(['yes', 'no', 'unknown']);
const failure = z.object({ type: z.enum(Object.values(FailureType)), message: z.string(), delivered });

const facts = z.object({
  projectId: z.string(),
  jobId: z.string(),
  learnedAt: instant,
  position: z.int().min(1).exactOptional(),
  expectedSendAt: instant.exactOptional(),
  sentAt: instant.exactOptional(),
  polls: count,
  nextPollAt: instant.exactOptional(),
  nextTryAt: instant.exactOptional(),
  pause: z
    .object({
      by: z.enum(['operator', 'service']),
      until: instant.exactOptional(),
      note: z.string().exactOptional(),
    })
    .exactOptional(),
  waitsUntil: instant.exactOptional(),
  delivery: followUpResultSchema.shape.delivery.exactOptional(),
  earlierSendUnknown: z.literal(true).exactOptional(),
  job: agentJobSchema.exactOptional(),
  jobSeenAt: instant.exactOptional(),
  jobStatus: z.string().exactOptional(),
  prLink: z.string().exactOptional(),
  lastError: z.object({ at: instant, message: z.string() }).exactOptional(),
});

/** Answer of the query `progress`. */
export const followUpProgressSchema: z.ZodType<FollowUpProgress> = z.intersection(
  z.union([
    z.object({ state: z.enum(['sending', 'reconciling', 'polling']) }),
    z.object({
      state: z.enum(['waiting-for-budget', 'waiting-for-job', 'blocked']),
      waitReason: z.enum([...waitReasons, 'service']),
    }),
    z.object({ state: z.enum(['completed', 'archived']) }),
    z.object({ state: z.literal('job-failed'), failure: failure.nullable() }),
    z.object({ state: z.enum(endStates).exclude(['completed', 'archived', 'job-failed']), failure }),
  ]),
  facts,
);

/** First of the details of an `ApplicationFailure`. */
export const failureDetailsSchema: z.ZodType<FailureDetails> = z.object({
  delivered,
  projectId: z.string().exactOptional(),
  jobId: z.string().exactOptional(),
  issues: z.array(z.object({ field: z.string(), message: z.string() })).exactOptional(),
  statusCode: z.int().exactOptional(),
  serviceMessage: z.string().exactOptional(),
  job: agentJobSchema.exactOptional(),
});

/** Answer of the query `batchStatus`. */
export const batchStatusSchema: z.ZodType<BatchStatus> = z.object({
  batchId: z.string(),
  total: count,
  waitingToStart: count,
  open: count,
  ...countFields(),
  maxOpen: z.int().min(1),
  sealed: z.boolean(),
  cancelled: z.boolean(),
  ended: z.boolean(),
  parts: count,
  startedAt: instant,
  firstEndedAt: instant.optional(),
  lastEndedAt: instant.optional(),
});

/** Answer of the query `batchItems`. */
export const batchItemsSchema: z.ZodType<BatchItemsPage> = z.object({
  total: count,
  offset: count,
  items: z.array(
    z.object({ index: count, projectId: z.string(), jobId: z.string(), workflowId: z.string(), ...outcomeFields() }),
  ),
  elsewhere: z.object({ workflowId: z.string(), count }).optional(),
});
