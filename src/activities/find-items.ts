import type { Client } from '@temporalio/client';
import { defined } from '../common/index.js';
import { followUpBatchWorkflowId, parseFollowUpBatchWorkflowId } from '../contract/index.js';
import {
  type FindItemsInput,
  type FoundItem,
  type FoundPart,
  partItemsSchema,
  RETRY_OF_MEMO,
  retryBatchId,
} from '../protocol/index.js';
import { readFollowUpEnd } from '../temporal/follow-up-end.js';
import { describeIfKnown, fewAtATime, isOpen, readRunStart } from '../temporal/lookups.js';

/** Activities that ask Temporal for outcomes that a batch or part missed, for example after a reset. */
export function createItemFinder(temporal: Client) {
  return {
    async findItems({ batchId, items }: FindItemsInput): Promise<FoundItem[]> {
      return fewAtATime(items, ({ workflowId, ...item }) =>
        readFollowUpEnd(temporal, workflowId, { batchId, ...item }),
      );
    },

    async findPart(workflowId: string): Promise<FoundPart> {
      const part = await describeIfKnown(temporal, workflowId);
      if (!part) return {};
      if (isOpen(part.status)) return { isOpen: true };
      // A batch that was reset after its retry must not send what the retry has already sent.
      const { batchId = '' } = parseFollowUpBatchWorkflowId(workflowId) ?? {};
      const retryId = followUpBatchWorkflowId({ batchId: retryBatchId(batchId, 1) });
      const retry = await describeIfKnown(temporal, retryId);
      if (retry?.memo?.[RETRY_OF_MEMO] === batchId) return {};
      const [input] = await readRunStart(temporal, workflowId, part.runId);
      return defined({ items: partItemsSchema.safeParse(input).data });
    },
  };
}

export type ItemFinder = ReturnType<typeof createItemFinder>;
