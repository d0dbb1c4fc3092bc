export interface Claim {
  /** Follow-ups that the part can start or has open. */
  needed: number;
  share: number;
  /** How many follow-ups it may have open, as far as the batch knows. */
  granted: number;
}

/**
 * Divides `maxOpen` evenly among the parts. No part gets more than it needs, and the first parts get the remainder. A
 * reduced share counts as granted until the part's report confirms it, so that all shares together never exceed
 * `maxOpen`.
 *
 * @param planned demand of parts that do not exist yet
 * @returns the new share of each claim
 */
export function divide(claims: readonly Claim[], planned: readonly number[], maxOpen: number): number[] {
  const targets = shareOut([...claims.map(({ needed }) => needed), ...planned], maxOpen);
  let free = maxOpen - claims.reduce((sum, { granted }) => sum + granted, 0);
  return claims.map(({ needed, share, granted }, index) => {
    const target = targets[index] ?? 0;
    // A part that gets all it needs has nothing left to start, so that its share need not be lowered.
    if (target <= share) return target < needed ? target : share;
    const more = Math.max(0, Math.min(target - granted, free));
    free -= more;
    return Math.max(share, Math.min(target, granted + more));
  });
}

function shareOut(needed: readonly number[], maxOpen: number): number[] {
  const shares = needed.map(() => 0);
  for (let left = maxOpen; left > 0;) {
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
