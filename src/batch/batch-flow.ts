import { toMarkdown } from '../common/index.js';
import type { BatchHold, FollowUpBatchResult } from '../contract/index.js';
import { type FoundPart, type PartInput, type PartOrder, type PartReport, partWorkflowId } from '../protocol/index.js';
import { Flow, type FlowPort } from './base-flow.js';
import type { Batch } from './batch.js';
import { describeBatch } from './batch-details.js';
import type { BatchState } from './batch-state.js';
import { MAX_SILENCE_MS } from './conversation.js';

export interface BatchPort extends FlowPort {
  /** Whether an update still runs. */
  isReplying(): boolean;
  isNextRunDue(): boolean;
  continueAsNew(state: BatchState): Promise<never>;
  /**
   * Starts a part.
   *
   * @returns its end; `used` if its workflow id was used before (with `again`: is in use)
   */
  startPart(input: PartInput): Promise<{ ended: Promise<unknown> } | 'used'>;
  /** Returns `false` if the part does not run. */
  sendOrder(workflowId: string, order: PartOrder): Promise<boolean>;
  findPart(workflowId: string): Promise<FoundPart>;
  show(details: string, hold: BatchHold | undefined): void;
}

const SHOWN_ERRORS = 10;

/** Runs a batch: starts its parts, sends them orders, receives their reports, and restarts parts that were cut off. */
export class BatchFlow extends Flow {
  readonly #lookedUp = new Set<number>();

  constructor(
    readonly batch: Batch,
    private readonly port: BatchPort,
  ) {
    super();
  }

  /**
   * Applies an update or a cancel. A cancel is never thrown: the parts end open items, and every item gets an outcome.
   */
  change<T>(what: () => T): T {
    this.wake();
    return what();
  }

  /**
   * Adds items, and returns when their parts have started. Callers then send a list no faster than that, and the run
   * can continue as new before the next piece.
   */
  async add(items: readonly unknown[], offset: number | undefined, updateId: string): Promise<number> {
    const total = this.change(() => this.batch.add(items, offset, updateId));
    await this.port.condition(() => this.batch.isHandedOut);
    return total;
  }

  receive(report: PartReport): void {
    const { batch, port } = this;
    const nowMs = port.nowMs();
    if (batch.isStrange(report)) {
      void port.sendOrder(partWorkflowId({ batchId: batch.state.batchId, ...report }), {
        number: nowMs,
        since: 0,
        share: 0,
        orphaned: true,
      });
    } else if (batch.take(report, nowMs)) this.wake();
  }

  /** Runs until every item has an outcome and no more can be added. */
  async run(): Promise<FollowUpBatchResult> {
    const { batch, port } = this;
    for (;;) {
      this.isWoken = false;
      const nowMs = port.nowMs();
      const isDue = port.isNextRunDue();
      if (!isDue) for (const { part, order } of batch.ordersToSend(nowMs)) this.#sendOrder(part, order);
      if (batch.running().length > 0) port.wakeAt(nowMs + MAX_SILENCE_MS);
      this.#show(nowMs);
      const next = batch.nextPart(nowMs);
      if (next) {
        // One at a time: each start carries items, and workflow tasks must stay small.
        await this.#startPart(next);
        batch.noteStarted();
        continue;
      }
      const isReplying = port.isReplying();
      const isIdle = this.underWay === 0 && !isReplying;
      if (batch.hasEnded && isIdle) return batch.result();
      if (isDue && isIdle) return port.continueAsNew(batch.state);
      await port.condition(() => this.isWoken || (isReplying && !port.isReplying()));
    }
  }

  #show(nowMs: number): void {
    const status = this.batch.status();
    const failures = this.batch.state.kept.filter(({ status: end, error }) => error ?? end === 'failed');
    const shown = failures.slice(0, SHOWN_ERRORS);
    this.port.show(
      toMarkdown((at) => describeBatch(status, shown, at), nowMs),
      status.hold,
    );
  }

  async #startPart(input: PartInput): Promise<void> {
    const { part } = input;
    const started = await this.port.startPart(input);
    // It was started before, as after a reset. It reports everything that it knows, or is restarted.
    if (started === 'used') this.#sendOrder(part, this.batch.askForAll(part, this.port.nowMs()));
    // A part sends its last report before it ends. Without that report, it was cut off.
    else void started.ended.then(() => this.during(() => this.#lookUp(part)));
  }

  #sendOrder(part: number, order: PartOrder): void {
    this.during(async () => {
      if (!(await this.port.sendOrder(this.batch.idOf(part), order))) await this.#lookUp(part);
    });
  }

  /**
   * Restarts a part that no longer runs although some of its items have not ended. The part asks Temporal for their
   * outcomes.
   */
  async #lookUp(part: number): Promise<void> {
    const { batch, port } = this;
    if (this.#lookedUp.has(part) || !batch.running().some(([running]) => running === part)) return;
    this.#lookedUp.add(part);
    const { isOpen, items } = await port.findPart(batch.idOf(part));
    // Another of its runs is open, as after a reset of the part.
    const again = isOpen ? undefined : batch.startAgain(part, items, port.nowMs());
    if (again) await this.#startPart(again);
    this.#lookedUp.delete(part);
    if (isOpen) this.#sendOrder(part, batch.askForAll(part, port.nowMs()));
  }
}
