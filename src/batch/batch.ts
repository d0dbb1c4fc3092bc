import { defined, iso } from '../common/index.js';
import {
  type BatchCounts,
  type BatchHold,
  type BatchItemsPage,
  type BatchStatus,
  type FollowUpBatchResult,
  type InputIssue,
  MAX_PIECE_BYTES,
  MAX_RESULT_ITEMS,
} from '../contract/index.js';
import {
  fillItem,
  type PartInput,
  type PartItems,
  type PartOrder,
  type PartReport,
  partWorkflowId,
} from '../protocol/index.js';
import type { BatchStart, BatchState, PartRecord } from './batch-state.js';
import { newConversation, orderAnew, orderToSend, takeReport } from './conversation.js';
import { failuresOf, holdOf } from './hold.js';
import { addCounts, countsOf, endedOf, hasOutcome, newItem } from './outcome.js';
import { hashOfItems, jsonBytes, MAX_PARTS, partSizes } from './pack.js';
import { remainingOf, renewOrders } from './shares.js';

/** Updates whose results are remembered. The server may repeat an update on the next run (temporal#6375). */
const REMEMBERED_UPDATES = 50;
/** How often a part that was cut off is restarted. */
const MAX_RESTARTS = 3;

/**
 * The rules of a batch: accepts items, divides them into parts, decides how many each part may have open, holds the
 * batch, and collects the parts' reports. Knows neither Temporal nor a clock.
 */
export class Batch {
  readonly state: BatchState;
  readonly #templateBytes: number;
  /** Items of parts that have not started. Not carried into the next run. */
  readonly #backlog: unknown[][] = [];
  /** Whether the latest part is still starting. */
  #isStarting = false;

  constructor(
    state: BatchState,
    private readonly maxPartItems?: number,
  ) {
    this.state = state;
    this.#templateBytes = jsonBytes(state.template);
  }

  static create(start: BatchStart, items: readonly unknown[], maxPartItems?: number): Batch {
    const state = { ...start, cancelled: false, forgivenFailures: 0, total: 0, parts: [], kept: [], updates: [] };
    const batch = new Batch(state, maxPartItems);
    batch.#append(items);
    return batch;
  }

  /** Whether all items so far belong to parts that have started. */
  get isHandedOut(): boolean {
    return this.#backlog.length === 0 && !this.#isStarting;
  }

  partIds(): string[] {
    return this.#started().map((_, part) => this.idOf(part));
  }

  running(): [part: number, record: PartRecord][] {
    return [...this.state.parts.entries()].filter(([, record]) => remainingOf(record) > 0);
  }

  get hasEnded(): boolean {
    return this.state.sealed && this.isHandedOut && this.running().length === 0;
  }

  /** Why `addItems` is refused, if it is. */
  issueWith(items: unknown, offset: unknown, updateId: string): InputIssue | undefined {
    const { total, sealed, parts } = this.state;
    const issue = (message: string, field = 'items'): InputIssue => ({ field, message });
    if (!Array.isArray(items) || items.length === 0) return issue('must be a list with at least one item');
    const from = offset ?? total;
    if (!Number.isSafeInteger(from) || Number(from) < 0) return issue('must be a whole number', 'offset');
    const bytes = jsonBytes(items);
    if (items.length > 1 && bytes > MAX_PIECE_BYTES) {
      return issue(`must be at most ${MAX_PIECE_BYTES} bytes of JSON, or a single item (given ${bytes})`);
    }
    if (this.#totalAfter(updateId) !== undefined) return undefined;
    if (Number(from) > total) {
      return issue(`must be at most ${total}, the number of items so far (given ${Number(from)})`, 'offset');
    }
    if (Number(from) + items.length <= total) return undefined;
    if (sealed) return issue('the batch accepts no more items: it is sealed');
    if (parts.length + this.#backlog.length + this.#pack(items).length > MAX_PARTS) {
      return issue(`the batch is full: it would have more than ${MAX_PARTS} parts, and each piece is at least one`);
    }
    return undefined;
  }

  /** Adds a piece and returns the new total. Skips items that it already has, by `offset` or by the update's id. */
  add(items: readonly unknown[], offset: number | undefined, updateId: string): number {
    const { updates } = this.state;
    const total = this.#totalAfter(updateId);
    if (total !== undefined) return total;
    this.#append(items.slice(Math.max(0, this.state.total - (offset ?? this.state.total))));
    updates.push([updateId, this.state.total]);
    if (updates.length > REMEMBERED_UPDATES) updates.shift();
    return this.state.total;
  }

  seal(): number {
    this.state.sealed = true;
    return this.state.total;
  }

  /** Accepts no more items. Items without a part still go to parts, which end them at once. */
  cancel(): void {
    this.state.cancelled = this.state.sealed = true;
    delete this.state.hold;
  }

  get canProceed(): boolean {
    return !this.state.cancelled && (this.state.hold !== undefined || this.state.canary !== undefined);
  }

  /** Ends a hold, or the canary early, and returns the hold. A hold for failures leaves the canary unchanged. */
  proceed(): BatchHold | null {
    const hold = this.state.hold ?? null;
    delete this.state.hold;
    if (hold?.name !== 'max-failures') delete this.state.canary;
    this.state.forgivenFailures = failuresOf(this.#counts());
    return hold;
  }

  nextPart(nowMs: number): PartInput | undefined {
    const { batchId, parts, template } = this.state;
    const items = this.#backlog.shift();
    if (!items) return undefined;
    const before = parts.at(-1);
    const first = before ? before.first + before.size : 0;
    const hash = hashOfItems({ template, items });
    const conversation = newConversation();
    const record = { first, size: items.length, hash, conversation, open: 0, counts: addCounts([]), restarts: 0 };
    const part = parts.push(record) - 1;
    this.#isStarting = true;
    renewOrders(this.state, this.#backlog, nowMs);
    return { batchId, part, hash, first, template, items, order: orderAnew(conversation, nowMs) };
  }

  /** Records that the part of {@link nextPart} has started. */
  noteStarted(): void {
    this.#isStarting = false;
  }

  /**
   * Holds the batch if necessary, and divides `maxOpen` among the parts again. Returns the orders that are new to the
   * parts, and records them as sent.
   */
  ordersToSend(nowMs: number): { part: number; order: PartOrder }[] {
    this.#brake(nowMs);
    renewOrders(this.state, this.#backlog, nowMs);
    return this.running().flatMap(([part, { conversation }]) => {
      const order = orderToSend(conversation);
      return order ? [{ part, order }] : [];
    });
  }

  /**
   * Applies a part's report. Returns whether it was new, or whether the part needs an order. A part that was reset
   * after its end continues, and its latest report counts.
   */
  take(report: PartReport, nowMs: number): boolean {
    const { hash, open, counts, ended } = report;
    const part = this.state.parts[report.part];
    if (part?.hash !== hash) return false;
    if (!takeReport(part.conversation, report)) return report.needsOrder === true;
    if (endedOf(counts) > endedOf(part.counts)) this.#noteEnded(nowMs);
    Object.assign(part, { open, counts });
    for (const { index, status, prLink, error } of ended) {
      Object.assign(this.state.kept[index] ?? {}, { status, prLink, error });
    }
    return true;
  }

  /**
   * Whether a report comes from a part that is not of this batch: from an earlier batch with the same id, or from
   * before a reset that led to other items.
   */
  isStrange({ part, hash }: PartReport): boolean {
    const { parts, sealed } = this.state;
    const record = parts[part];
    return record ? record.hash !== hash : sealed && this.#backlog.length === 0;
  }

  idOf(part: number): string {
    return partWorkflowId({ batchId: this.state.batchId, part, hash: this.#part(part).hash });
  }

  /**
   * The input for restarting a part. If its items are lost, or after the last restart, items without an outcome get an
   * error, and it returns `undefined`.
   */
  startAgain(index: number, found: PartItems | undefined, nowMs: number): PartInput | undefined {
    const part = this.#part(index);
    const { batchId } = this.state;
    if (found && part.restarts < MAX_RESTARTS) {
      part.restarts += 1;
      const { first, template, items } = found;
      // Items of a cancelled batch may have ended without a follow-up.
      const withdrawn = this.state.cancelled ? (part.counts.errorsByType.Cancelled ?? 0) : 0;
      const again = endedOf(part.counts) - withdrawn + part.open;
      const order = orderAnew(part.conversation, nowMs);
      return { batchId, part: index, hash: part.hash, first, template, items, order, again };
    }
    const message = `${this.idOf(index)} was terminated: see the follow-up`;
    const outcome = { error: { type: 'Terminated', message, delivered: 'unknown' } } as const;
    part.counts = addCounts([part.counts, ...Array.from({ length: remainingOf(part) }, () => countsOf(outcome))]);
    part.open = 0;
    for (const item of this.state.kept.slice(part.first, part.first + part.size)) {
      if (!hasOutcome(item)) Object.assign(item, outcome);
    }
    this.#noteEnded(nowMs);
    return undefined;
  }

  /** An order to report everything again, after the batch lost what the part had reported. */
  askForAll(index: number, nowMs: number): PartOrder {
    return orderAnew(this.#part(index).conversation, nowMs);
  }

  status(): BatchStatus {
    const { batchId, total, parts, maxOpen, canary, maxFailures, notify, hold, sealed, cancelled } = this.state;
    const { startedAtMs, firstEndedAtMs, lastEndedAtMs } = this.state;
    const at = (ms: number | undefined) => (ms === undefined ? undefined : iso(ms));
    const counts = this.#counts();
    const open = parts.reduce((sum, part) => sum + part.open, 0);
    return {
      batchId,
      total,
      waitingToStart: total - endedOf(counts) - open,
      open,
      ...counts,
      maxOpen,
      ...defined({ hold, canary, maxFailures, notify }),
      sealed,
      cancelled,
      ended: this.hasEnded,
      parts: parts.length,
      startedAt: iso(startedAtMs),
      ...defined({ firstEndedAt: at(firstEndedAtMs), lastEndedAt: at(lastEndedAtMs) }),
    };
  }

  page(offset: number, limit: number): BatchItemsPage {
    const { total, kept } = this.state;
    const items = kept.slice(offset, offset + limit);
    const next = offset + items.length;
    const page = { total, offset, items };
    if (items.length >= limit || next >= total || next < kept.length) return page;
    const started = this.#started();
    const part = started.findIndex(({ first, size }) => next >= first && next < first + size);
    const record = started[part];
    // Not in a part yet; the caller can retry a little later.
    if (!record) return page;
    const count = record.first + record.size - next;
    return { ...page, elsewhere: { workflowId: this.idOf(part), count } };
  }

  result(): FollowUpBatchResult {
    const { total, cancelled, kept: items } = this.state;
    return {
      total,
      ...this.#counts(),
      items,
      ...(items.length < total && { truncated: true }),
      ...(cancelled && { cancelled: true }),
    };
  }

  #totalAfter(updateId: string): number | undefined {
    return this.state.updates.find(([id]) => id === updateId)?.[1];
  }

  #append(items: readonly unknown[]): void {
    const { batchId, kept, template } = this.state;
    for (const item of items.slice(0, MAX_RESULT_ITEMS - kept.length)) {
      kept.push(newItem(batchId, kept.length, fillItem(item, template)));
    }
    this.state.total += items.length;
    this.#backlog.push(...this.#pack(items));
  }

  /** Divides each piece separately: after a reset, the same pieces make the same parts. */
  #pack(items: readonly unknown[]): unknown[][] {
    let from = 0;
    return partSizes(items.map(jsonBytes), this.#templateBytes, this.maxPartItems).map((size) =>
      items.slice(from, (from += size)),
    );
  }

  #brake(nowMs: number): void {
    const { state } = this;
    if (this.hasEnded) delete state.hold;
    if (state.hold || state.cancelled || this.hasEnded) return;
    const hold = holdOf(state, this.#counts(), nowMs);
    if (hold) state.hold = hold;
  }

  #started(): PartRecord[] {
    return this.#isStarting ? this.state.parts.slice(0, -1) : this.state.parts;
  }

  #part(index: number): PartRecord {
    const part = this.state.parts[index];
    if (!part) throw new RangeError(`There is no part ${index}`);
    return part;
  }

  #counts(): BatchCounts {
    return addCounts(this.state.parts.map(({ counts }) => counts));
  }

  #noteEnded(nowMs: number): void {
    this.state.firstEndedAtMs ??= nowMs;
    this.state.lastEndedAtMs = nowMs;
  }
}
