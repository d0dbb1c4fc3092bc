/** Most follow-ups that a batch starts in {@link START_WINDOW_MS}. The server would refuse more. */
const STARTS = 5;
const START_WINDOW_MS = 1_000;
/** Shortest interval between two reports of a part to its batch, multiplied by the number of parts. */
const REPORT_INTERVAL_MS = 200;
const SHORTEST_REPORT_INTERVAL_MS = 1_000;

/** From a batch to one of its parts. */
export interface PartOrder {
  /** Goes up, also where the batch is reset: it is at least the time. A part's report says the latest that it knows. */
  number: number;
  /** Most follow-ups that the part may have open. */
  share: number;
  /** That many it may start in `everyMs`. */
  starts: number;
  everyMs: number;
  reportEveryMs: number;
  /** Start no more, and cancel what is open. */
  cancel?: true | undefined;
  /** Tell all ends again: the batch was reset. */
  tellAll?: true | undefined;
}

/** What decides the order of a part; changed by {@link renewOrders}. */
export interface Claim {
  order: PartOrder;
  /** Most follow-ups that the part may have open for all that the batch knows. */
  held: number;
  /** Items that have not ended. */
  remaining: number;
}

/** How fast each of `parts` may start follow-ups, so that all of them together keep to the limit. */
export function paceOf(parts: number): Pick<PartOrder, 'starts' | 'everyMs' | 'reportEveryMs'> {
  // In powers of two: a part that ends or joins seldom changes the pace of all others.
  const sharers = 2 ** Math.ceil(Math.log2(Math.max(1, parts)));
  const starts = Math.max(1, Math.floor(STARTS / sharers));
  return {
    starts,
    everyMs: (starts * sharers * START_WINDOW_MS) / STARTS,
    reportEveryMs: Math.max(SHORTEST_REPORT_INTERVAL_MS, REPORT_INTERVAL_MS * sharers),
  };
}

/** Divides `maxOpen` evenly; nobody gets more than it has use for, and the first get what is left over. */
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

/** The order after one, to be filled in. */
export function nextOrder(order: PartOrder, nowMs: number): PartOrder {
  const { tellAll: _told, ...rest } = order;
  return { ...rest, number: Math.max(order.number + 1, nowMs) };
}

/** Delay of a part's first start: parts that are started together take turns. */
export function firstStartAfter(part: number, { starts, everyMs }: Pick<PartOrder, 'starts' | 'everyMs'>): number {
  return (part * starts * (START_WINDOW_MS / STARTS)) % everyMs;
}

/**
 * Gives each part its share, and changes `claims` where an order changes. What a part has to give back counts as held
 * until its report shows that it knows: at no time may all parts together have more open than `maxOpen`.
 *
 * @param planned sizes of parts that are about to be started
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
