import { iso } from '../common/index.js';
import type { BatchCounts, BatchHold } from '../contract/index.js';
import type { BatchState } from './batch-state.js';
import { hasOutcome } from './outcome.js';

/** Why a batch that is not held must be held now, if it must: its failures are too many, or its canary has ended. */
export function holdOf(state: BatchState, counts: BatchCounts, nowMs: number): BatchHold | undefined {
  const { canary = Infinity, maxFailures = Infinity, total, sealed, kept } = state;
  const hold = (name: BatchHold['name'], reason: string) => ({ name, reason, at: iso(nowMs) });
  const failures = failuresOf(counts) - state.forgivenFailures;
  // Computed in hundredths, so that 29 % of 100 is 29.
  const allowed = typeof maxFailures === 'string' ? parseFloat(maxFailures) * total : maxFailures * 100;
  if (failures * 100 > allowed) {
    return hold('max-failures', `${failures} of ${total} items failed (${maxFailures} may)`);
  }
  if ((total > canary || (!sealed && total === canary)) && kept.slice(0, canary).every(hasOutcome)) {
    return hold('canary', `the canary has ended: ${sealed ? `${canary} of ${total} items` : `the first ${canary}`}`);
  }
  return undefined;
}

/** Failed items, without those that a person or the batch cancelled. */
export function failuresOf({ failed, errors, errorsByType }: BatchCounts): number {
  return failed + errors - (errorsByType.Cancelled ?? 0);
}
