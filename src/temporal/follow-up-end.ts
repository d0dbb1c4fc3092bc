import { type Client, WorkflowFailedError } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { trimOutcome } from '../batch/outcome.js';
import { type ItemOutcome, SearchAttribute } from '../contract/index.js';
import {
  type ExpectedItem,
  type FoundItem,
  ITEM_HASH_MEMO,
  outcomeOfFailure,
  outcomeOfResult,
} from '../protocol/index.js';
import { isOpen } from './lookups.js';

/**
 * The outcome of an item's follow-up from Temporal's record of its newest run. If another batch or input used the
 * item's workflow id, that is also an outcome.
 *
 * @throws ServiceError of the SDK if Temporal does not answer
 */
export async function readFollowUpEnd(
  client: Client,
  workflowId: string,
  { batchId, hash, mayAssume }: ExpectedItem & { batchId: string },
): Promise<FoundItem> {
  const handle = client.workflow.getHandle(workflowId);
  try {
    const { status, memo, typedSearchAttributes: attributes } = await handle.describe();
    const itsHash = memo?.[ITEM_HASH_MEMO];
    const isOther = attributes.get(SearchAttribute.batchId) !== batchId;
    if (isOther || itsHash !== hash) {
      // A follow-up that was started by hand under an item's id may have the item's message.
      const delivered = itsHash === undefined ? 'unknown' : 'no';
      const what = delivered === 'no' ? 'for another message; this one was not sent' : 'by something else';
      return {
        outcome: { error: { type: 'NotStarted', message: `${workflowId} was already used ${what}`, delivered } },
      };
    }
    if (isOpen(status)) return { isOpen: true };
    // A follow-up that was cut off in the state `polling` had sent its message.
    const wasSent = !mayAssume && attributes.get(SearchAttribute.state) === 'polling';
    return { outcome: trimOutcome(await readOutcome(handle.result(), wasSent)) };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return {};
    throw error;
  }
}

async function readOutcome(result: Promise<unknown>, wasSent: boolean): Promise<ItemOutcome> {
  try {
    return outcomeOfResult(await result);
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error;
    const { error: failure } = outcomeOfFailure(error.cause);
    if (!failure || !wasSent || failure.delivered !== 'unknown') return { ...(failure && { error: failure }) };
    return { error: { ...failure, message: `${failure.message} after its message was sent`, delivered: 'yes' } };
  }
}
