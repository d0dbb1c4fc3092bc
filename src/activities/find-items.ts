import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import {
  type FindItemsInput,
  type FoundItem,
  type FoundPart,
  partItemsSchema,
  retryBatchId,
  RETRY_OF_MEMO,
} from '../contract/batch-protocol.js';
import { followUpBatchWorkflowId, parseFollowUpBatchWorkflowId } from '../contract/ids.js';
import { readFollowUpEnd } from '../temporal/follow-up-end.js';
import { describeIfKnown, fewAtATime, readRunStart } from '../temporal/lookups.js';

/** Activities by which a batch or a part asks Temporal what happened that it did not hear of, as after a reset. */
export function createItemFinder(temporal: Client) {
  return {
    /** How the follow-ups of items stand, in their order. */
    async findItems({ batchId, items }: FindItemsInput): Promise<FoundItem[]> {
      return fewAtATime(items, ({ workflowId, ...item }) =>
        readFollowUpEnd(temporal, workflowId, { batchId, ...item }),
      );
    },

    /** Whether a part runs, and what it was started with. */
    async findPart(workflowId: string): Promise<FoundPart> {
      try {
        const { status, runId } = await temporal.workflow.getHandle(workflowId).describe();
        if (status.name === 'RUNNING' || status.name === 'PAUSED') return { isOpen: true };
        if (await isRetried(temporal, workflowId)) return { wasRetried: true };
        const [input] = await readRunStart(temporal, workflowId, runId);
        const { data: items } = partItemsSchema().safeParse(input);
        return items ? { items } : {};
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return {};
        throw error;
      }
    },
  };
}

export type ItemFinder = ReturnType<typeof createItemFinder>;

/** Whether the batch of a part was retried. */
async function isRetried(temporal: Client, partId: string): Promise<boolean> {
  const { batchId = '' } = parseFollowUpBatchWorkflowId(partId) ?? {};
  const retryId = followUpBatchWorkflowId({ batchId: retryBatchId(batchId, 1) });
  return (await describeIfKnown(temporal, retryId))?.memo?.[RETRY_OF_MEMO] === batchId;
}
