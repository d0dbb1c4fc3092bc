import {
  type FoundPart,
  type PartInput,
  type PartItems,
  type PartOrder,
  type PartReport,
  partWorkflowId,
} from '../contract/batch-protocol.js';
import { type BatchHold, type FollowUpBatchResult, MAX_PIECE_BYTES } from '../contract/index.js';
import { type Batch, type BatchState, isOver } from './batch.js';
import { describeBatch } from './details.js';
import { jsonBytes } from './pack.js';

/** What a batch needs of Temporal. */
export interface BatchPort {
  nowMs(): number;
  condition(isOver: () => boolean): Promise<unknown>;
  /** Calls {@link BatchFlow.wake} at that time, or a little later. */
  wakeAt(atMs: number): void;
  /** Whether an update is being answered. */
  isAnswering(): boolean;
  isNextRunDue(): boolean;
  continueAsNew(state: BatchState): Promise<never>;
  /**
   * Starts a part.
   *
   * @returns what resolves at its end; `used` if its workflow id was used before (with `again`: is in use)
   */
  startPart(input: PartInput): Promise<{ ended: Promise<unknown> } | 'used'>;
  /** Signals an order. Returns `false` if the part does not run. */
  tellPart(workflowId: string, order: PartOrder): Promise<boolean>;
  findPart(workflowId: string): Promise<FoundPart>;
  show(details: string, hold: BatchHold | undefined): void;
}

/**
 * A part that has reported nothing for this long is signalled, to see whether it still runs. Temporal does not report the
 * end of a child to a parent that was closed at that time and is reset later.
 */
const WATCH_EVERY_MS = 2 * 60 * 60_000;
/** Most items with errors in the current details. */
const SHOWN_ERRORS = 10;

/** Runs a batch: starts its parts, sends them orders, hears their reports, and starts a part again that was cut off. */
export class BatchFlow {
  #woken = true;
  /** Orders and look-ups under way. */
  #underWay = 0;
  readonly #lookedUp = new Set<number>();

  constructor(
    readonly batch: Batch,
    private readonly port: BatchPort,
  ) {}

  wake(): void {
    this.#woken = true;
  }

  /** Why a piece of items is refused; `undefined` if it is not. */
  issueWith(items: unknown, offset: unknown, updateId: string): [field: string, message: string] | undefined {
    if (!Array.isArray(items) || items.length === 0) return ['items', 'must be a list with at least one item'];
    const isCount = Number.isSafeInteger(offset) && Number(offset) >= 0;
    if (offset !== undefined && offset !== null && !isCount) return ['offset', 'must be a whole number'];
    const bytes = jsonBytes(items);
    if (items.length > 1 && bytes > MAX_PIECE_BYTES) {
      return ['items', `must be at most ${MAX_PIECE_BYTES} bytes of JSON, or a single item (given ${bytes})`];
    }
    if (this.batch.knows(updateId)) return undefined;
    const issue = this.batch.issueWith(items, isCount ? Number(offset) : undefined);
    return issue === undefined ? undefined : ['items', issue];
  }

  /**
   * Adds items. It is answered once their parts have started. So callers hand over a list no faster than that, and the
   * run can continue as new before the next piece.
   */
  async add(items: readonly unknown[], offset: number | undefined, updateId: string): Promise<number> {
    const { batch, port } = this;
    const total = batch.add(items, offset, updateId);
    this.wake();
    await port.condition(() => batch.isHandedOut);
    return total;
  }

  seal(): number {
    this.wake();
    return this.batch.seal();
  }

  proceed(): BatchHold | null {
    this.wake();
    return this.batch.proceed();
  }

  /** Only noted and never thrown: the parts end what is open, and every item gets its outcome. */
  cancel(): void {
    this.wake();
    this.batch.cancel();
  }

  hear(report: PartReport): void {
    const { batch, port } = this;
    const nowMs = port.nowMs();
    if (batch.isStrange(report)) {
      void port.tellPart(partWorkflowId({ batchId: batch.state.batchId, ...report }), {
        number: nowMs,
        share: 0,
        orphaned: true,
      });
    } else if (batch.take(report, nowMs)) this.wake();
  }

  /** Runs until every item has an outcome and no more can come. */
  async run(): Promise<FollowUpBatchResult> {
    const { batch, port } = this;
    for (;;) {
      this.#woken = false;
      const nowMs = port.nowMs();
      const isDue = port.isNextRunDue();
      if (!isDue) for (const { part, order } of batch.ordersToSend(nowMs)) this.#tell(part, order);
      this.#watch(nowMs);
      this.#show(nowMs);
      if (batch.hasBacklog) {
        // One after another: each start carries items, and the workflow tasks must stay small.
        await this.#startPart(batch.nextPart(port.nowMs()));
        batch.noteStarted();
        continue;
      }
      const isAnswering = port.isAnswering();
      const isIdle = this.#underWay === 0 && !isAnswering;
      if (batch.hasEnded && isIdle) return batch.result();
      if (isDue && isIdle) return port.continueAsNew(batch.state);
      await port.condition(() => this.#woken || (isAnswering && !port.isAnswering()));
    }
  }

  #show(nowMs: number): void {
    const status = this.batch.status();
    const failures = this.batch.state.kept.filter(({ status: end, error }) => error ?? end === 'failed');
    this.port.show(describeBatch(status, failures.slice(0, SHOWN_ERRORS), nowMs), status.hold);
  }

  async #startPart(input: PartInput): Promise<void> {
    const { part } = input;
    const started = await this.port.startPart(input);
    // It was started before, as happens after a reset. It reports all that it knows, or is started again.
    if (started === 'used') this.#tell(part, this.batch.askForAll(part, this.port.nowMs()), input);
    // Its last report comes before its end. If that report is missing, it was cut off.
    else void started.ended.then(() => this.#during(() => this.#lookUp(part)));
  }

  /** @param input if it is known: what to start the part again with if it no longer runs */
  #tell(part: number, order: PartOrder, input?: PartItems): void {
    this.#during(async () => {
      if (await this.port.tellPart(this.batch.idOf(part), order)) this.batch.noteAlive(part, this.port.nowMs());
      else await this.#lookUp(part, input);
    });
  }

  /** Starts a part again that no longer runs, although not all its items have ended. The part asks what they did. */
  async #lookUp(part: number, input?: PartItems): Promise<void> {
    const { batch, port } = this;
    const record = batch.state.parts[part];
    if (this.#lookedUp.has(part) || !record || isOver(record)) return;
    this.#lookedUp.add(part);
    const { isOpen, items, wasRetried } = await port.findPart(batch.idOf(part));
    this.#lookedUp.delete(part);
    // Another run of it is open, as after a reset of the part.
    if (isOpen) return this.#tell(part, batch.askForAll(part, port.nowMs()));
    // A batch that was reset after its retry must not send what the retry has sent.
    const again = batch.startAgain(part, wasRetried ? undefined : (input ?? items), port.nowMs());
    if (again) await this.#startPart(again);
  }

  #watch(nowMs: number): void {
    for (const [part, record] of this.batch.state.parts.entries()) {
      const { aliveAtMs, order } = record;
      if (isOver(record) || this.#lookedUp.has(part)) continue;
      if (nowMs < aliveAtMs + WATCH_EVERY_MS) {
        this.port.wakeAt(aliveAtMs + WATCH_EVERY_MS);
        continue;
      }
      this.batch.noteAlive(part, nowMs);
      this.#tell(part, order);
    }
  }

  #during(work: () => Promise<void>): void {
    this.#underWay += 1;
    void work().finally(() => {
      this.#underWay -= 1;
      this.wake();
    });
  }
}
