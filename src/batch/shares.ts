import type { BatchState, PartRecord } from './batch-state.js';
import { renewOrder } from './conversation.js';
import { endedOf } from './outcome.js';

export function remainingOf({ size, counts }: PartRecord): number {
  return size - endedOf(counts);
}

/**
 * Divides what may be open among the running parts, and renews the order of each. A reduced share counts as granted
 * until the part's report confirms it, so that all shares together never exceed `maxOpen`.
 *
 * @param planned the items of the parts that have not started
 */
export function renewOrders(state: BatchState, planned: readonly unknown[][], nowMs: number): void {
  const { maxOpen, hold, canary: until, cancelled } = state;
  const parts = state.parts.filter((part) => remainingOf(part) > 0);
  const grantedTo = (part: PartRecord) => Math.min(part.conversation.granted, remainingOf(part));
  const needed = parts.map((part) => Math.min(remainingOf(part), Math.max(0, (until ?? Infinity) - part.first)));
  const later = until === undefined ? planned.map(({ length }) => length) : [];
  const targets = divide([...needed, ...later], hold || cancelled ? 0 : maxOpen);
  let free = Math.max(0, maxOpen - parts.reduce((sum, part) => sum + grantedTo(part), 0));
  for (const [index, part] of parts.entries()) {
    const { conversation } = part;
    const [target = 0, current] = [targets[index], conversation.order.share];
    const granted = grantedTo(part);
    const next = Math.min(target, granted + free);
    free -= Math.max(0, next - granted);
    // A part that gets all it needs has nothing left to start, so that its share need not be lowered.
    const share = target === needed[index] ? Math.max(next, current) : next;
    renewOrder(conversation, { share, until, cancel: cancelled || undefined }, nowMs);
  }
}

/** Divides `total` evenly. No part gets more than it needs, and the first parts get the remainder. */
export function divide(needed: readonly number[], total: number): number[] {
  const shares = needed.map(() => 0);
  for (let left = total; left > 0;) {
    const hungry = needed.flatMap((need, index) => ((shares[index] ?? 0) < need ? [index] : []));
    if (hungry.length === 0) break;
    const each = Math.max(1, Math.floor(left / hungry.length));
    for (const index of hungry) {
      const more = Math.min(each, left, (needed[index] ?? 0) - (shares[index] ?? 0));
      shares[index] = (shares[index] ?? 0) + more;
      left -= more;
    }
  }
  return shares;
}
