import { ApplicationFailure, CancelledFailure, TerminatedFailure } from '@temporalio/common';
import type { ItemOutcome } from './batch-result.js';
import { type Delivered, type FailureDetails, FailureType } from './failures.js';
import { followUpResultSchema } from './follow-up-result.js';
import { parseInput } from './validation.js';

/** How an item ended whose follow-up completed with this value. */
export function outcomeOfResult(value: unknown): ItemOutcome {
  const result = parseInput(followUpResultSchema, value);
  if (!result.ok) return outcomeOfFailure(new Error('It ended with an unknown result'));
  return { status: result.value.status, prLink: result.value.prLink };
}

/** How an item ended whose follow-up failed, was cancelled, was terminated or timed out, from the cause of its failure. */
export function outcomeOfFailure(cause: unknown): ItemOutcome {
  const message = cause instanceof Error ? cause.message : String(cause);
  if (cause instanceof CancelledFailure) {
    // Only a follow-up that has sent nothing ends as Canceled.
    return { error: { type: 'Cancelled', message: 'Cancelled before the message was sent', delivered: 'no' } };
  }
  if (cause instanceof TerminatedFailure) {
    return { error: { type: 'Terminated', message: 'The follow-up was terminated', delivered: 'unknown' } };
  }
  if (cause instanceof ApplicationFailure) {
    const type = Object.values(FailureType).find((known) => known === cause.type) ?? 'Other';
    return { error: { type, message, delivered: deliveredOf(cause.details?.[0]) } };
  }
  return { error: { type: 'Other', message, delivered: 'unknown' } };
}

function deliveredOf(details: unknown): Delivered {
  const { delivered } = (details ?? {}) as Partial<FailureDetails>;
  return delivered === 'yes' || delivered === 'no' ? delivered : 'unknown';
}
