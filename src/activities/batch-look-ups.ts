import type { Client } from '@temporalio/client';
import type { GonePart } from '../batch/batch.js';
import { trimOutcome } from '../batch/outcome.js';
import { type Found, LookUp } from '../client/outcome-lookup.js';

export interface LookUpItemsInput {
  batchId: string;
  /** `promptHash`: `hash64` of the message that the follow-up must have. */
  items: { workflowId: string; promptHash?: string }[];
}

export interface LookUpPartInput {
  batchId: string;
  part: number;
  /** Of the items that the part must have. */
  itemsHash?: string;
}

export interface LookedUpPart extends GonePart {
  /** It runs: another run has replaced it. */
  isOpen?: true;
}

/** Activities by which a batch or a part finds out what it missed because of a reset or a terminate. */
export function createLookUps(temporal: Client) {
  return {
    async lookUpItems({ batchId, items }: LookUpItemsInput): Promise<Found[]> {
      const lookUp = new LookUp(temporal);
      const found: Found[] = [];
      for (const { workflowId, promptHash } of items) {
        const { outcome, isOpen } = await lookUp.followUp(workflowId, { batchId, promptHash });
        found.push({ ...(outcome && { outcome: trimOutcome(outcome) }), ...(isOpen && { isOpen }) });
      }
      return found;
    },
    async lookUpPart({ batchId, part, itemsHash }: LookUpPartInput): Promise<LookedUpPart> {
      const { ended, ...found } = await new LookUp(temporal).part(batchId, part, itemsHash);
      return { ...found, ended: ended.map(({ index, ...outcome }) => ({ index, ...trimOutcome(outcome) })) };
    },
  };
}

export type LookUps = ReturnType<typeof createLookUps>;
