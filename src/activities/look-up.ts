import type { Client } from '@temporalio/client';
import { trimOutcome, type ItemOutcome } from '../batch/outcome.js';
import { LookUp, type Found } from '../client/outcome-lookup.js';

/** Argument of the `lookUpItems` activity. */
export interface LookUpItemsInput {
  batchId: string;
  /** `promptHash`: `hash64` of the message that the follow-up has to have. */
  items: { workflowId: string; promptHash?: string }[];
}

/** Argument of the `lookUpPart` activity. */
export interface LookUpPartInput {
  batchId: string;
  part: number;
  /** Of the items that it has to have. */
  itemsHash?: string;
}

/** Result of the `lookUpPart` activity. */
export interface LookedUpPart {
  ended: (ItemOutcome & { index: number })[];
  /** All items, where some of them have not ended. */
  rest?: { first: number; template: Record<string, unknown>; items: unknown[] };
  /** It runs: another run took its place. */
  isOpen?: true;
}

/** Activities by which a batch or a part finds out what it was not told: a reset or a terminate came between. */
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
