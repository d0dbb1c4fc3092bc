import { z } from 'zod';
import {
  grantedBefore,
  sendOutcomes,
  type AcquireRequest,
  type KeyReadMessage,
  type LeaveMessage,
  type SettleMessage,
} from './budget-messages.js';
import { instantMsSchema } from './durations.js';
import { lanes } from './choices.js';

/** Ids and texts of messages to a gate; longer than any that follow-ups send. */
const text = z.string().min(1).max(1_000);
const sendNumber = z.int().min(1);
const durationMs = z.number().min(0).max(31_536_000_000);

const acquireRequestSchema: z.ZodType<AcquireRequest> = z.object({
  workflowId: text,
  sendNumber,
  jobId: text,
  lane: z.enum(lanes),
  token: text,
  hold: z.boolean(),
  withdraw: z.literal(true).exactOptional(),
  grantedBefore: z.enum(grantedBefore).exactOptional(),
  askNumber: z.int().min(1).exactOptional(),
  provenNotSent: z.literal(true).exactOptional(),
  ledgerSinceMs: instantMsSchema.exactOptional(),
  messageTag: z.string().regex(/^[\w-]{8}$/),
  attemptScheduledAtMs: instantMsSchema,
  firstRunStartedAtMs: instantMsSchema,
  leaseMs: durationMs,
  drainMs: durationMs,
  ceiling: z.object({ limit: z.int().min(0), windowMs: durationMs }).exactOptional(),
});

/** What a gate takes for asks: anything else would fail its task, and with it every follow-up of the project. */
export const acquireRequestsSchema = z.array(acquireRequestSchema).min(1).max(1_000);

/** What a gate takes for the end of a send. */
export const settleMessageSchema: z.ZodType<SettleMessage> = z.object({
  workflowId: text,
  sendNumber,
  token: text,
  outcome: z.enum(sendOutcomes),
  retryAfterMs: durationMs.exactOptional(),
  message: z.string().max(1_000).exactOptional(),
  statusCode: z.int().min(100).max(999).exactOptional(),
});

/** What a gate takes for what a read says about the key. */
export const keyReadMessageSchema: z.ZodType<KeyReadMessage> = z.object({ isRefused: z.boolean() });

/** What a gate takes for the end of a follow-up. */
export const leaveMessageSchema: z.ZodType<LeaveMessage> = z.object({
  workflowId: text,
  jobId: text,
  sendNumber,
  outcome: z.enum(sendOutcomes).exactOptional(),
  lastJobSeen: z
    .object({
      status: z.string().max(1_000).nullable(),
      prLinkHash: z.string().max(100).nullable(),
      archivedAt: z.string().max(1_000).nullable(),
    })
    .exactOptional(),
});
