import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import {
  type FindItemsInput,
  type FoundItem,
  type FoundPart,
  partItemsSchema,
  RETRY_OF_MEMO,
} from '../contract/batch-protocol.js';
import { followUpBatchWorkflowId, parseFollowUpBatchWorkflowId, retryBatchId } from '../contract/ids.js';
import { readFollowUpEnd } from '../temporal/follow-up-end.js';
import { readRunStart } from '../temporal/run-start.js';

/** Follow-ups that are asked about at the same time. */
const AT_A_TIME = 10;

/** Activities by which a batch or a part asks Temporal what happened that it did not hear of, as after a reset. */
export function createItemFinder(temporal: Client) {
  return {
    /** How the follow-ups of items stand, in their order. */
    async findItems({ batchId, items }: FindItemsInput): Promise<FoundItem[]> {
      const found: FoundItem[] = [];
      for (let from = 0; from < items.length; from += AT_A_TIME) {
        const asked = items.slice(from, from + AT_A_TIME);
        found.push(
          ...(await Promise.all(
            asked.map(({ workflowId, ...item }) => readFollowUpEnd(temporal, workflowId, { batchId, ...item })),
          )),
        );
      }
      return found;
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
  try {
    const retryId = followUpBatchWorkflowId({ batchId: retryBatchId(batchId, 1) });
    const { memo } = await temporal.workflow.getHandle(retryId).describe();
    return memo?.[RETRY_OF_MEMO] === batchId;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}
