import { defined } from '../common/index.js';
import type { PartOrder, PartReport } from '../protocol/index.js';

/**
 * After this time in which neither a batch nor its part says anything, the batch repeats its order, to check that the
 * part runs: Temporal does not report a child's end to a parent that was closed at that time and is reset later. The
 * batch looks only once in this time, so a silence can last up to twice as long.
 */
export const MAX_SILENCE_MS = 60 * 60_000;

/**
 * What a batch and one of its parts have said to each other, as the batch knows it. The batch sends orders, and the
 * part sends reports. Each is numbered by its time, or on from the one before, so that the numbers increase even after
 * a reset. A report names the order that the part follows.
 */
export interface Conversation {
  /** The latest order. Its `since` is the first order whose reports count. */
  order: PartOrder;
  /** Number of the order that the part follows, or that was sent since. */
  sent: number;
  /** Number of the latest report. */
  reported: number;
  /** Most follow-ups that the part may have open: the largest share since the one that it follows. */
  granted: number;
}

/** A conversation in which nothing has been said. */
export function newConversation(): Conversation {
  return { order: { number: 0, since: 0, share: 0 }, sent: 0, reported: 0, granted: 0 };
}

/** Changes the order, or repeats it if both have been silent for too long. */
export function renewOrder(
  conversation: Conversation,
  { share, until, cancel }: Pick<PartOrder, 'share' | 'until' | 'cancel'>,
  nowMs: number,
): void {
  const { order, reported, granted } = conversation;
  conversation.granted = Math.max(granted, share);
  const isSame = share === order.share && until === order.until && cancel === order.cancel;
  if (isSame && nowMs < Math.max(order.number, reported) + MAX_SILENCE_MS) return;
  const number = Math.max(order.number + 1, nowMs);
  conversation.order = { number, since: order.since, share, ...defined({ until, cancel }) };
}

/** The latest order, if the part does not have it. Counts as sent. */
export function orderToSend(conversation: Conversation): PartOrder | undefined {
  const { order, sent } = conversation;
  if (sent >= order.number) return undefined;
  conversation.sent = order.number;
  return order;
}

/**
 * An order for a part that starts, or whose reports the batch has lost. Only reports on it or later orders count, and
 * the first of them has all ends. Counts as sent.
 */
export function orderAnew(conversation: Conversation, nowMs: number): PartOrder {
  const number = Math.max(conversation.order.number + 1, nowMs);
  conversation.order = { ...conversation.order, number, since: number };
  conversation.sent = number;
  return conversation.order;
}

/** Takes what a report says of the conversation. Returns `false` if it is old or of a run that no longer counts. */
export function takeReport(
  conversation: Conversation,
  { number, order: followed, needsOrder, open }: PartReport,
): boolean {
  const { order, reported } = conversation;
  if (number <= reported) return false;
  if (followed < order.since) {
    // The part has missed the order from which on its reports count.
    if (needsOrder) conversation.order = { ...order, number: order.number + 1 };
    return false;
  }
  conversation.reported = number;
  // After a reset, the part may follow an older order, or one that this run of the batch does not know.
  conversation.sent = followed;
  if (followed === order.number) conversation.granted = Math.max(order.share, open);
  if (followed > order.number || needsOrder) {
    conversation.order = { ...order, number: Math.max(order.number, followed) + 1 };
  }
  return true;
}
