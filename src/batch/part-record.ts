import type { BatchCounts } from '../contract/index.js';
import type { PartOrder, PartReport } from '../protocol/index.js';
import type { BatchState } from './batch-state.js';
import { addCounts, endedOf } from './outcome.js';
import { divide } from './shares.js';

/** What a batch knows of one of its parts. Part of the batch's state. */
export interface PartRecord {
  first: number;
  size: number;
  hash: string;
  order: PartOrder;
  sent: number;
  /** Most follow-ups that it may have open, as far as the batch knows. */
  granted: number;
  open: number;
  counts: BatchCounts;
  reports: number;
  /** Number of the first order whose reports count. Earlier orders came from a run of the batch before a reset. */
  since: number;
  restarts: number;
}

/** A part that has not started. */
export function newRecord(of: Pick<PartRecord, 'first' | 'size' | 'hash'>, nowMs: number): PartRecord {
  const order = { number: nowMs, share: 0 };
  return { ...of, order, sent: 0, since: 0, granted: 0, open: 0, counts: addCounts([]), reports: 0, restarts: 0 };
}

export function remainingOf({ size, counts }: PartRecord): number {
  return size - endedOf(counts);
}

/** Applies what a report says of the part itself. */
export function applyReport(part: PartRecord, { number, order, open, counts }: PartReport): void {
  delete part.order.reportAll;
  // After a reset, the part may follow an order that this run does not know, or one older than the last sent.
  if (order > part.order.number) part.order = nextOrder(part.order, order + 1);
  else if (order < part.sent) part.sent = 0;
  Object.assign(part, { reports: number, open, counts });
  if (order >= part.order.number) part.granted = Math.max(part.order.share, open);
}

/**
 * Divides what may be open among the running parts, and gives a new order to each whose share or limit changes.
 *
 * @param planned sizes of the parts that have not started
 */
export function renewOrders(state: BatchState, planned: readonly number[], nowMs: number): void {
  const { parts, maxOpen, hold, canary: until, cancelled } = state;
  const running = parts.filter((part) => remainingOf(part) > 0);
  const claims = running.map((part) => {
    const needed = Math.min(remainingOf(part), Math.max(0, (until ?? Infinity) - part.first));
    return { needed, share: part.order.share, granted: Math.min(part.granted, remainingOf(part)) };
  });
  const shares = divide(claims, until === undefined ? planned : [], hold || cancelled ? 0 : maxOpen);
  for (const [index, part] of running.entries()) {
    const share = shares[index] ?? 0;
    part.granted = Math.max(part.granted, share);
    const { order } = part;
    if (share === order.share && until === order.until && cancelled === (order.cancel ?? false)) continue;
    part.order = { ...nextOrder(order, nowMs), share, until, ...(cancelled && { cancel: true }) };
  }
}

function nextOrder(order: PartOrder, nowMs: number): PartOrder {
  return { ...order, number: Math.max(order.number + 1, nowMs) };
}

/** A new order for a part that restarts or reports everything again: only reports on it or later orders count. */
export function orderAnew(part: PartRecord, nowMs: number): PartOrder {
  part.order = nextOrder(part.order, nowMs);
  part.sent = part.since = part.order.number;
  return part.order;
}
