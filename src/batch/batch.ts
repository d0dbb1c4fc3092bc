import { iso } from '../contract/durations.js';
import { fillItem } from '../contract/batch-input.js';
import {
  type BatchCounts,
  type BatchItem,
  type BatchItemsPage,
  type BatchStatus,
  type FollowUpBatchResult,
  followUpBatchWorkflowId,
  MAX_RESULT_ITEMS,
} from '../contract/index.js';
import { type CarriedItems, KeptItems } from './kept-items.js';
import { firstStartAfter, nextOrder, paceOf, type PartOrder, renewOrders } from './orders.js';
import { addCounts, countAll, countOutcome, type EndedItem, endedOf, type ItemOutcome, noCounts } from './outcome.js';
import { countForPart, jsonBytes, MAX_PARTS, partSizes } from './pack.js';
import { idsOf, type PartReport } from './part.js';

/** Most bytes of items and outcomes that a batch itself keeps, including its template. */
const MAX_KEPT_BYTES = 300 * 1_024;
/** Bytes of items in one answer or result. */
const MAX_ANSWER_BYTES = 384 * 1_024;
/** Number of updates whose answers are remembered. The server may apply an update again on the next run. */
const REMEMBERED_UPDATES = 50;
/** How often a part is started again after somebody terminates it. */
const MOST_RESTARTS = 3;

export interface PartRecord {
  /** Index of its first item. */
  first: number;
  size: number;
  /** Items that have not ended. */
  remaining: number;
  order: PartOrder;
  /** Number of the latest order that was sent to it. */
  sent: number;
  /** Most follow-ups that it may have open, as far as the batch knows. */
  held: number;
  open: number;
  counts: BatchCounts;
  reports: number;
  /** Number of its first order from this run of the batch. Reports on earlier orders went to a run that was reset. */
  since: number;
  aliveAtMs: number;
  hasEnded: boolean;
  /** How often it was started again after being terminated. */
  restarts?: number;
}

/** Everything that a batch carries through continue-as-new. Plain JSON. */
export interface BatchState {
  batchId: string;
  maxOpen: number;
  template: Record<string, unknown>;
  sealed: boolean;
  cancelled: boolean;
  startedAtMs: number;
  firstEndedAtMs?: number;
  lastEndedAtMs?: number;
  total: number;
  parts: PartRecord[];
  kept: CarriedItems;
  /** Ids of the latest `addItems` updates, with their answers. */
  updates: [id: string, total: number][];
}

export interface PartInput {
  batchId: string;
  part: number;
  first: number;
  template: Record<string, unknown>;
  items: unknown[];
  order: PartOrder;
  /** How long the part waits before its first start, so that parts do not all start follow-ups at once. */
  firstStartAfterMs: number;
  /** If the part is started again: the items that have ended. */
  ended?: EndedItem[];
}

/** What could be found out about a part that no longer runs. */
export interface GonePart {
  ended: EndedItem[];
  /** Its items, if some of them have not ended. */
  rest?: Pick<PartInput, 'first' | 'template' | 'items'>;
}

/**
 * A whole batch: accepts items, divides them into parts, and collects the reports of the parts. Knows neither Temporal
 * nor a clock.
 */
export class Batch {
  readonly #state: BatchState;
  readonly #kept: KeptItems;
  readonly #templateBytes: number;
  /** Items that are not in a part yet. Not carried into the next run. */
  #backlog: unknown[] = [];
  #backlogBytes: number[] = [];

  constructor(state: BatchState) {
    this.#state = state;
    this.#templateBytes = jsonBytes(state.template);
    this.#kept = new KeptItems(state.batchId, Math.max(0, MAX_KEPT_BYTES - this.#templateBytes), state.kept);
  }

  static create(
    start: Pick<BatchState, 'batchId' | 'maxOpen' | 'template' | 'sealed' | 'startedAtMs'> & { items: unknown[] },
  ): Batch {
    const { items, ...state } = start;
    const batch = new Batch({
      ...state,
      cancelled: false,
      total: 0,
      parts: [],
      kept: { projects: [], items: [] },
      updates: [],
    });
    batch.#append(items);
    return batch;
  }

  get batchId(): string {
    return this.#state.batchId;
  }

  get sealed(): boolean {
    return this.#state.sealed;
  }

  get cancelled(): boolean {
    return this.#state.cancelled;
  }

  get parts(): readonly PartRecord[] {
    return this.#state.parts;
  }

  get hasBacklog(): boolean {
    return this.#backlog.length > 0;
  }

  /** Whether waiting for more items would not make the next part larger. */
  get isNextPartFull(): boolean {
    return this.sealed || countForPart(this.#backlogBytes, this.#templateBytes) < this.#backlog.length;
  }

  get hasEnded(): boolean {
    return this.sealed && !this.hasBacklog && this.parts.every((part) => part.hasEnded);
  }

  /** The state for the next run. Only valid without a backlog. */
  carry(): BatchState {
    return { ...this.#state, kept: this.#kept.carry() };
  }

  /** Why a piece cannot be accepted, or `undefined`. */
  issueWith(items: readonly unknown[], offset = this.#state.total): string | undefined {
    const { total, sealed, parts } = this.#state;
    if (offset > total) return `offset must be at most ${total}, the number of items so far (given ${offset})`;
    if (offset + items.length <= total) return undefined;
    if (sealed) return 'the batch takes no more items: it is sealed';
    const more = partSizes([...this.#backlogBytes, ...items.map(jsonBytes)], this.#templateBytes);
    if (parts.length + more.length > MAX_PARTS) return `the batch is full: it would have more than ${MAX_PARTS} parts`;
    return undefined;
  }

  knows(updateId: string): boolean {
    return this.#state.updates.some(([id]) => id === updateId);
  }

  /**
   * Adds a piece and returns the new total. Items that are already there, by `offset` or by the update's id, are not
   * added again.
   */
  add(items: readonly unknown[], offset: number | undefined, updateId: string): number {
    const { updates } = this.#state;
    const known = updates.find(([id]) => id === updateId);
    if (known) return known[1];
    this.#append(items.slice(Math.max(0, this.#state.total - (offset ?? this.#state.total))));
    updates.push([updateId, this.#state.total]);
    if (updates.length > REMEMBERED_UPDATES) updates.shift();
    return this.#state.total;
  }

  seal(): number {
    this.#state.sealed = true;
    return this.#state.total;
  }

  /** Accepts no more items. Items that are not in a part yet go to parts that end them at once. */
  cancel(nowMs: number): void {
    this.#state.cancelled = true;
    this.#state.sealed = true;
    for (const part of this.#state.parts) {
      if (!part.hasEnded) part.order = { ...nextOrder(part.order, nowMs), share: 0, cancel: true };
    }
  }

  nextPart(nowMs: number): PartInput {
    const { batchId, parts, template, cancelled } = this.#state;
    const count = countForPart(this.#backlogBytes, this.#templateBytes);
    const items = this.#backlog.splice(0, count);
    this.#backlogBytes.splice(0, count);
    const before = parts.at(-1);
    const first = before ? before.first + before.size : 0;
    const record: PartRecord = {
      first,
      size: items.length,
      remaining: items.length,
      order: { number: nowMs, share: 0, ...paceOf(1), ...(cancelled && { cancel: true }) },
      sent: 0,
      held: 0,
      open: 0,
      counts: noCounts(),
      reports: 0,
      since: nowMs,
      aliveAtMs: nowMs,
      hasEnded: false,
    };
    const part = parts.push(record) - 1;
    this.#renewOrders(nowMs);
    const { order } = record;
    record.sent = order.number;
    const firstStartAfterMs = firstStartAfter(part, order);
    return { batchId, part, first, template, items, order, firstStartAfterMs };
  }

  /**
   * Divides `maxOpen` among the parts again. Returns the orders that the parts do not know yet, and marks them as sent.
   */
  ordersToSend(nowMs: number): { part: number; order: PartOrder }[] {
    this.#renewOrders(nowMs);
    return this.#state.parts.flatMap((record, part) => {
      if (record.hasEnded || record.sent >= record.order.number) return [];
      record.sent = record.order.number;
      return [{ part, order: record.order }];
    });
  }

  /** Applies a part's report. Returns whether it said anything new. */
  take({ part: index, number, order, open, counts, ended }: PartReport, nowMs: number): boolean {
    const part = this.#state.parts[index];
    if (!part || number <= part.reports || order < part.since || part.hasEnded) return false;
    if (endedOf(counts) > endedOf(part.counts)) this.#noteEnded(nowMs);
    Object.assign(part, { reports: number, open, counts, aliveAtMs: nowMs });
    if (order >= part.order.number) part.held = Math.max(part.order.share, open);
    part.remaining = part.size - endedOf(counts);
    part.hasEnded = part.remaining <= 0;
    for (const { index: item, ...outcome } of ended) this.#kept.end(item, outcome);
    return true;
  }

  /**
   * Notes that a part no longer runs. Returns the input to start it again with if items are left. After the last
   * restart, the items that are left count as lost.
   */
  noteGone(index: number, gone: GonePart, nowMs: number): PartInput | undefined {
    const part = this.#state.parts[index];
    if (!part || part.hasEnded) return undefined;
    const { batchId } = this.#state;
    part.open = 0;
    // What was found out includes what the part reported, unless nothing could be found out.
    if (gone.ended.length > endedOf(part.counts)) part.counts = countAll(gone.ended);
    for (const { index: item, ...outcome } of gone.ended) this.#kept.end(item, outcome);
    part.remaining = part.size - endedOf(part.counts);
    if (part.remaining > 0 && gone.rest && (part.restarts ?? 0) < MOST_RESTARTS) {
      part.restarts = (part.restarts ?? 0) + 1;
      part.order = { ...nextOrder(part.order, nowMs), ...(this.cancelled && { share: 0, cancel: true }) };
      part.sent = part.since = part.order.number;
      part.aliveAtMs = nowMs;
      return { batchId, part: index, ...gone.rest, ended: gone.ended, order: part.order, firstStartAfterMs: 0 };
    }
    const outcome: ItemOutcome = {
      error: {
        type: 'Terminated',
        message: `${followUpBatchWorkflowId({ batchId, part: index })} was terminated: see the follow-up`,
        delivered: 'unknown',
      },
    };
    if (part.remaining > 0) countOutcome(part.counts, outcome, part.remaining);
    part.remaining = 0;
    part.hasEnded = true;
    for (let item = part.first; item < part.first + part.size; item++) this.#kept.end(item, outcome);
    this.#noteEnded(nowMs);
    return undefined;
  }

  /** An order to a running part to report everything again, after the batch lost what the part had reported. */
  askForAll(index: number, nowMs: number): PartOrder {
    const part = this.#part(index);
    part.aliveAtMs = nowMs;
    part.order = { ...nextOrder(part.order, nowMs), tellAll: true };
    part.sent = part.since = part.order.number;
    return part.order;
  }

  noteAlive(index: number, nowMs: number): void {
    this.#part(index).aliveAtMs = nowMs;
  }

  status(): BatchStatus {
    const { batchId, total, parts, maxOpen, sealed, cancelled, startedAtMs, firstEndedAtMs, lastEndedAtMs } =
      this.#state;
    const counts = this.#counts();
    const ended = endedOf(counts);
    const open = parts.reduce((sum, part) => sum + part.open, 0);
    const left = total - ended;
    return {
      batchId,
      total,
      waitingToStart: left - open,
      open,
      ...counts,
      maxOpen,
      sealed,
      cancelled,
      ended: this.hasEnded,
      parts: parts.length,
      startedAt: iso(startedAtMs),
      ...(firstEndedAtMs !== undefined && { firstEndedAt: iso(firstEndedAtMs) }),
      ...(lastEndedAtMs !== undefined && { lastEndedAt: iso(lastEndedAtMs) }),
    };
  }

  page(offset: number, limit: number): BatchItemsPage {
    const { batchId, total, parts } = this.#state;
    const items = this.#kept.slice(offset, limit, MAX_ANSWER_BYTES);
    const next = offset + items.length;
    const page = { total, offset, items };
    if (items.length >= limit || next >= total || next < this.#kept.length) return page;
    const part = parts.findIndex(({ first, size }) => next >= first && next < first + size);
    const record = parts[part];
    // Not in a part yet; the caller can ask again a little later.
    if (!record) return page;
    const count = record.first + record.size - next;
    return { ...page, elsewhere: { workflowId: followUpBatchWorkflowId({ batchId, part }), count } };
  }

  result(): FollowUpBatchResult {
    const { total, cancelled } = this.#state;
    const items = this.#kept.slice(0, MAX_RESULT_ITEMS, MAX_ANSWER_BYTES);
    return {
      total,
      ...this.#counts(),
      items,
      ...(items.length < total && { truncated: true }),
      ...(cancelled && { cancelled: true }),
    };
  }

  /** The first items that ended without success, to show to people. */
  firstErrors(most: number): BatchItem[] {
    const found: BatchItem[] = [];
    for (let index = 0; index < this.#kept.length && found.length < most; index++) {
      const item = this.#kept.at(index);
      if (item && (item.error || item.status === 'failed')) found.push(item);
    }
    return found;
  }

  #append(items: readonly unknown[]): void {
    for (const [place, item] of items.entries()) {
      this.#kept.add(this.#state.total + place, idsOf(fillItem(item, this.#state.template)));
    }
    for (const item of items) {
      this.#backlog.push(item);
      this.#backlogBytes.push(jsonBytes(item));
    }
    this.#state.total += items.length;
  }

  #renewOrders(nowMs: number): void {
    if (this.cancelled) return;
    const running = this.#state.parts.filter((part) => !part.hasEnded);
    renewOrders(running, partSizes(this.#backlogBytes, this.#templateBytes), this.#state.maxOpen, nowMs);
  }

  #part(index: number): PartRecord {
    const part = this.#state.parts[index];
    if (!part) throw new RangeError(`There is no part ${index}`);
    return part;
  }

  #counts(): BatchCounts {
    return addCounts(this.#state.parts.map(({ counts }) => counts));
  }

  #noteEnded(nowMs: number): void {
    this.#state.firstEndedAtMs ??= nowMs;
    this.#state.lastEndedAtMs = nowMs;
  }
}
