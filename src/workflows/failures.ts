import {
  ApplicationFailure,
  CancelledFailure,
  ChildWorkflowFailure,
  getExternalWorkflowHandle,
  TerminatedFailure,
  workflowInfo,
} from '@temporalio/workflow';
import { type ItemOutcome, trimOutcome } from '../batch/outcome.js';
import { followUpEndedSignal } from '../contract/batch-result.js';
import {
  type Delivered,
  describeIssues,
  type FailureDetails,
  FailureType,
  type InputIssue,
  type Parsed,
  parseFollowUpBatchWorkflowId,
} from '../contract/index.js';

/** A typed failure whose first detail says whether the message was delivered. */
export function failure(type: FailureType, message: string, details: FailureDetails): ApplicationFailure {
  return ApplicationFailure.create({ type, message, nonRetryable: true, details: [details] });
}

/** Input that breaks rules. Nothing was sent. */
export function invalidInput(issues: InputIssue[]): ApplicationFailure {
  return failure(FailureType.InvalidInput, `Invalid input: ${describeIssues(issues)}`, { delivered: 'no', issues });
}

/** @throws ApplicationFailure `InvalidInput` if it breaks rules */
export function accept<T>(parsed: Parsed<T>): T {
  if (parsed.ok) return parsed.value;
  throw invalidInput(parsed.issues);
}

/** How an item ended whose follow-up failed, was cancelled, was terminated or timed out. */
export function outcomeOfFailure(error: unknown): ItemOutcome {
  const cause = error instanceof ChildWorkflowFailure ? error.cause : error;
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

/**
 * Tells the batch that started this follow-up, if one did, how it ended. This is awaited, because a signal that is issued
 * in the completing task is never delivered. It goes to the workflow id, because the batch may have continued as new.
 */
export async function tellBatch(outcome: ItemOutcome): Promise<void> {
  const { parent, workflowId, namespace } = workflowInfo();
  if (parent?.namespace !== namespace || !parseFollowUpBatchWorkflowId(parent.workflowId)) return;
  try {
    await getExternalWorkflowHandle(parent.workflowId).signal(followUpEndedSignal, {
      workflowId,
      ...trimOutcome(outcome),
    });
  } catch {
    // The batch has ended: there is nobody to tell.
  }
}

function deliveredOf(details: unknown): Delivered {
  const { delivered } = (details ?? {}) as Partial<FailureDetails>;
  return delivered === 'yes' || delivered === 'no' ? delivered : 'unknown';
}
