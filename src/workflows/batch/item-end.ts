import {
  ApplicationFailure,
  CancelledFailure,
  ChildWorkflowFailure,
  getExternalWorkflowHandle,
  TerminatedFailure,
  workflowInfo,
} from '@temporalio/workflow';
import { trimOutcome, type ItemOutcome } from '../../batch/outcome.js';
import {
  FailureType,
  followUpEndedSignal,
  parseFollowUpBatchWorkflowId,
  type Delivered,
  type FailureDetails,
} from '../../contract/index.js';

/** How an item ended whose follow-up failed, was cancelled, terminated or timed out. */
export function outcomeOfFailure(error: unknown): ItemOutcome {
  const failure = error instanceof ChildWorkflowFailure ? error.cause : error;
  const message = failure instanceof Error ? failure.message : String(failure);
  if (failure instanceof CancelledFailure) {
    // Only a follow-up that has sent nothing ends as Canceled.
    return { error: { type: 'Cancelled', message: 'Cancelled before the message was sent', delivered: 'no' } };
  }
  if (failure instanceof TerminatedFailure) {
    return { error: { type: 'Terminated', message: 'The follow-up was terminated', delivered: 'unknown' } };
  }
  if (failure instanceof ApplicationFailure) {
    const type = Object.values(FailureType).find((known) => known === failure.type) ?? 'Other';
    return { error: { type, message, delivered: deliveredOf(failure.details?.[0]) } };
  }
  return { error: { type: 'Other', message, delivered: 'unknown' } };
}

/**
 * Tells the batch that started this follow-up, if one did, how it has ended. Awaited, for a signal issued in the
 * completing task is never delivered. By workflow id: the batch may have continued as new, or may be gone.
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
    // It has ended: there is nobody to be told.
  }
}

function deliveredOf(details: unknown): Delivered {
  const { delivered } = (details ?? {}) as Partial<FailureDetails>;
  return delivered === 'yes' || delivered === 'no' ? delivered : 'unknown';
}
