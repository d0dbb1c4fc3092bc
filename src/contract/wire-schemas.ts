import { z } from 'zod';
import { followUpBatchInputSchema } from './batch-input.js';
import {
  type BatchItemsPage,
  type BatchStatus,
  countFields,
  followUpBatchResultSchema,
  outcomeFields,
} from './batch-result.js';
import { blockReasons, waitReasons } from './budget-messages.js';
import { endStates, sendingStates, waitingStates } from './choices.js';
import { FailureType, type FailureDetails } from './failures.js';
import { followUpInputSchema, followUpSettings, MAX_PROMPT_BYTES } from './follow-up-input.js';
import type { FollowUpProgress } from './follow-up-messages.js';
import { agentJobSchema, followUpResultSchema } from './follow-up-result.js';

/**
 * Schemas of everything that callers in other languages write and read. The build makes the JSON Schemas in `schemas`
 * from them, and nothing else loads this module.
 *
 * @module
 */

const instant = z.iso.datetime();
const count = z.int().min(0);
const delivered = z.enum(['yes', 'no', 'unknown']);
const failure = z.object({ type: z.enum(Object.values(FailureType)), message: z.string(), delivered });

const waitReason = z.enum([...waitReasons, ...blockReasons]);

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
const followUpProgressSchema: z.ZodType<FollowUpProgress> = z.intersection(
  z.union([
    z.object({ state: z.enum(sendingStates), waitReason: waitReason.exactOptional() }),
    z.object({ state: z.enum(waitingStates), waitReason }),
    z.object({ state: z.enum(['completed', 'archived']) }),
    z.object({ state: z.literal('job-failed'), failure: failure.nullable() }),
    z.object({ state: z.enum(endStates).exclude(['completed', 'archived', 'job-failed']), failure }),
  ]),
  facts,
);

/** First of the details of an `ApplicationFailure`. */
const failureDetailsSchema: z.ZodType<FailureDetails> = z.object({
  delivered,
  projectId: z.string().exactOptional(),
  jobId: z.string().exactOptional(),
  issues: z.array(z.object({ field: z.string(), message: z.string() })).exactOptional(),
  statusCode: z.int().exactOptional(),
  serviceMessage: z.string().exactOptional(),
  job: agentJobSchema.exactOptional(),
});

/** Answer of the query `batchStatus`. */
const batchStatusSchema: z.ZodType<BatchStatus> = z.object({
  batchId: z.string(),
  total: count,
  waitingToStart: count,
  open: count,
  ...countFields(),
  maxOpen: z.int().min(1),
  hold: z.object({ name: z.enum(['canary', 'max-failures']), reason: z.string(), at: instant }).optional(),
  canary: z.int().min(1).optional(),
  maxFailures: z.union([count, z.string()]).optional(),
  sealed: z.boolean(),
  cancelled: z.boolean(),
  ended: z.boolean(),
  parts: count,
  startedAt: instant,
  firstEndedAt: instant.optional(),
  lastEndedAt: instant.optional(),
});

/** Answer of the query `batchItems`. */
const batchItemsSchema: z.ZodType<BatchItemsPage> = z.object({
  total: count,
  offset: count,
  items: z.array(
    z.object({ index: count, projectId: z.string(), jobId: z.string(), workflowId: z.string(), ...outcomeFields() }),
  ),
  elsewhere: z.object({ workflowId: z.string(), count }).optional(),
});

/** What the build makes the JSON Schemas from. */
export function wireSchemas() {
  return {
    followUpSettings,
    maxPromptBytes: MAX_PROMPT_BYTES,
    inputs: [
      { name: 'follow-up-input', title: 'Input of the followUp workflow', schema: followUpInputSchema },
      {
        name: 'follow-up-batch-input',
        title: 'Input of the followUpBatch workflow',
        schema: followUpBatchInputSchema(),
      },
    ],
    answers: [
      { name: 'follow-up-result', title: 'Result of the followUp workflow', schema: followUpResultSchema },
      { name: 'follow-up-progress', title: 'Answer of the query progress', schema: followUpProgressSchema },
      {
        name: 'follow-up-failure',
        title: 'First of the details of a failed followUp workflow',
        schema: failureDetailsSchema,
      },
      {
        name: 'follow-up-batch-result',
        title: 'Result of the followUpBatch workflow',
        schema: followUpBatchResultSchema(),
      },
      { name: 'follow-up-batch-status', title: 'Answer of the query batchStatus', schema: batchStatusSchema },
      { name: 'follow-up-batch-items', title: 'Answer of the query batchItems', schema: batchItemsSchema },
    ],
  };
}
