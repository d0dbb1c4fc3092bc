import { AssertionError } from 'node:assert';
import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { FailureDetails } from '../../src/contract/index.js';

/** The type, details and message of a workflow's failure. Throws if the workflow did not fail. */
export async function failureOf(result: Promise<unknown>) {
  const error = await result.then(
    (value) => {
      throw new AssertionError({ message: `Did not fail: ${JSON.stringify(value)}` });
    },
    (reason: unknown) => reason,
  );
  if (!(error instanceof WorkflowFailedError)) throw error;
  const { cause } = error;
  if (cause instanceof CancelledFailure) return { type: 'Canceled', message: cause.message };
  if (!(cause instanceof ApplicationFailure)) throw new Error('not an ApplicationFailure', { cause });
  return { type: cause.type, message: cause.message, ...(cause.details?.[0] as FailureDetails) };
}
