import type { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, TerminatedFailure, TimeoutFailure } from '@temporalio/common';
import { z } from 'zod';
import {
  describeIssues,
  type FailureDetails,
  FailureType,
  type FollowUpResult,
  followUpResultSchema,
  parseInput,
} from '../contract/index.js';
import {
  FollowUpCancelledError,
  type FollowUpClientError,
  FollowUpFailedError,
  FollowUpTerminatedError,
  FollowUpTimedOutError,
  UnexpectedOutcomeError,
} from './errors.js';

const failureDetailsSchema = z.looseObject({
  delivered: z.enum(['yes', 'no', 'unknown']).catch('unknown'),
  projectId: z.string().exactOptional(),
  jobId: z.string().exactOptional(),
  issues: z.array(z.object({ field: z.string(), message: z.string() })).exactOptional(),
  statusCode: z.number().exactOptional(),
  serviceMessage: z.string().exactOptional(),
  job: z.unknown().exactOptional(),
});

/**
 * Result of a workflow that completed.
 *
 * @throws UnexpectedOutcomeError where it is no follow-up's result
 */
export function toFollowUpResult(workflowId: string, value: unknown): FollowUpResult {
  const parsed = parseInput(followUpResultSchema, value);
  if (parsed.ok) return parsed.value;
  throw new UnexpectedOutcomeError(
    workflowId,
    `the workflow's result is not a follow-up result: ${describeIssues(parsed.issues)}`,
  );
}

/** This library's error for the way a workflow ended. */
export function toOutcomeError(workflowId: string, error: WorkflowFailedError): FollowUpClientError {
  const { cause } = error;
  const options = { cause: error };
  if (cause instanceof CancelledFailure) return new FollowUpCancelledError(workflowId, options);
  if (cause instanceof TerminatedFailure) return new FollowUpTerminatedError(workflowId, cause.message, options);
  if (cause instanceof TimeoutFailure) return new FollowUpTimedOutError(workflowId, options);
  if (cause instanceof ApplicationFailure) {
    const type = Object.values(FailureType).find((known) => known === cause.type);
    if (type) return new FollowUpFailedError(workflowId, type, cause.message, toDetails(cause.details?.[0]), options);
    return new UnexpectedOutcomeError(
      workflowId,
      `the workflow failed: ${cause.type ?? ''}: ${cause.message}`,
      options,
    );
  }
  return new UnexpectedOutcomeError(workflowId, `the workflow failed: ${cause?.message ?? error.message}`, options);
}

function toDetails(value: unknown): FailureDetails {
  const parsed = failureDetailsSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  // Other fields may be of a newer version; whether the message was delivered must not get lost with them.
  const delivered = z.object({ delivered: failureDetailsSchema.shape.delivered }).safeParse(value);
  return { delivered: delivered.data?.delivered ?? 'unknown' };
}
