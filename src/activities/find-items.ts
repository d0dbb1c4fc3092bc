import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { type FindItemsInput, type FoundItem, type FoundPart, partItemsSchema } from '../contract/batch-protocol.js';
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
            asked.map(({ workflowId, hash }) => readFollowUpEnd(temporal, workflowId, { batchId, hash })),
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
        const [input] = await readRunStart(temporal, workflowId, runId);
        const { data: items } = partItemsSchema.safeParse(input);
        return items ? { items } : {};
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return {};
        throw error;
      }
    },
  };
}

export type ItemFinder = ReturnType<typeof createItemFinder>;
