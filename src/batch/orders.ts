/** Most follow-ups that a batch starts in {@link START_WINDOW_MS}. The server would refuse more. */
const STARTS = 5;
const START_WINDOW_MS = 1_000;
/** Shortest interval between two reports of a part, per part of the batch. */
const REPORT_INTERVAL_MS = 200;
const SHORTEST_REPORT_INTERVAL_MS = 1_000;

/** From a batch to one of its parts. */
export interface PartOrder {
  /**
   * Always increases, even after a reset of the batch, because it is at least the time in milliseconds. A part's report
   * names the latest order that it knows.
   */
  number: number;
  /** Most follow-ups that the part may have open. */
  share: number;
  /** How many it may start in `everyMs`. */
  starts: number;
  everyMs: number;
  reportEveryMs: number;
  /** Start no more follow-ups, and cancel the open ones. */
  cancel?: true | undefined;
  /** Report all ends again: the batch was reset. */
  tellAll?: true | undefined;
}

/** What determines a part's order. {@link renewOrders} changes it. */
export interface Claim {
  order: PartOrder;
  /** Most follow-ups that the part may have open for all that the batch knows. */
  held: number;
  /** Items that have not ended. */
  remaining: number;
}

/** How fast each of `parts` parts may start follow-ups so that together they keep to the limit. */
export function paceOf(parts: number): Pick<PartOrder, 'starts' | 'everyMs' | 'reportEveryMs'> {
  // Rounded up to a power of two, so that a part that ends or joins rarely changes the pace of all others.
  const sharers = 2 ** Math.ceil(Math.log2(Math.max(1, parts)));
  const starts = Math.max(1, Math.floor(STARTS / sharers));
  return {
    starts,
    everyMs: (starts * sharers * START_WINDOW_MS) / STARTS,
    reportEveryMs: Math.max(SHORTEST_REPORT_INTERVAL_MS, REPORT_INTERVAL_MS * sharers),
  };
}

/** Divides `maxOpen` evenly. No part gets more than it needs, and the first parts get the remainder. */
export function shareOut(wanted: readonly number[], maxOpen: number): number[] {
  const shares = wanted.map(() => 0);
  for (let left = maxOpen; left > 0;) {
    const hungry = wanted.flatMap((want, index) => ((shares[index] ?? 0) < want ? [index] : []));
    if (hungry.length === 0) break;
    const each = Math.max(1, Math.floor(left / hungry.length));
    for (const index of hungry) {
      const more = Math.min(each, left, (wanted[index] ?? 0) - (shares[index] ?? 0));
      shares[index] = (shares[index] ?? 0) + more;
      left -= more;
    }
  }
  return shares;
}

/** The next order after `order`, for the caller to fill in. */
export function nextOrder(order: PartOrder, nowMs: number): PartOrder {
  const { tellAll: _told, ...rest } = order;
  return { ...rest, number: Math.max(order.number + 1, nowMs) };
}

/** Delay of a part's first start. Parts that are started together take turns. */
export function firstStartAfter(part: number, { starts, everyMs }: Pick<PartOrder, 'starts' | 'everyMs'>): number {
  return (part * starts * (START_WINDOW_MS / STARTS)) % everyMs;
}

/**
 * Gives each part its share and changes the claims whose orders change. What a part has to give back counts as held
 * until its report confirms it. All parts together never have more than `maxOpen` follow-ups open.
 */
export function renewOrders(
  claims: readonly Claim[],
  planned: readonly number[],
  maxOpen: number,
  nowMs: number,
): void {
  const targets = shareOut([...claims.map(({ remaining }) => remaining), ...planned], maxOpen);
  const heldBy = ({ held, remaining }: Claim): number => Math.min(held, remaining);
  let free = maxOpen - claims.reduce((sum, claim) => sum + heldBy(claim), 0);
  const pace = paceOf(targets.filter((target) => target > 0).length);
  for (const [index, claim] of claims.entries()) {
    const target = targets[index] ?? 0;
    let { share } = claim.order;
    if (target > share) {
      const before = heldBy(claim);
      share = Math.max(share, Math.min(target, before + Math.max(0, free)));
      claim.held = Math.max(claim.held, share);
      free -= heldBy(claim) - before;
    } else if (claim.remaining > target) {
      share = target;
    }
    if (share === claim.order.share && pace.everyMs === claim.order.everyMs) continue;
    claim.order = { ...nextOrder(claim.order, nowMs), ...pace, share };
  }
}
