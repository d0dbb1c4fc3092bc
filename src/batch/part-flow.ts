import type { BatchCounts, BatchItemsPage, ItemOutcome } from '../contract/index.js';
import type { FindItemsInput, FoundItem, PartInput, PartReport, SentOrder } from '../protocol/index.js';
import { Flow, type FlowPort } from './base-flow.js';
import { describePart } from './batch-details.js';
import { expectationOf, hashOfItem } from './pack.js';
import { type ItemStart, Part } from './part.js';

export interface PartPort extends FlowPort {
  /**
   * Runs an item's follow-up.
   *
   * @returns its outcome; `used` if its workflow id was used before
   */
  runFollowUp(start: ItemStart & { hash: string }): Promise<ItemOutcome | 'used'>;
  cancelFollowUp(workflowId: string): Promise<unknown>;
  findItems(input: FindItemsInput): Promise<FoundItem[]>;
  /**
   * Sends a report to a run of the batch, or to whatever workflow runs with the batch's id.
   *
   * @returns `false` if that does not run
   */
  reportToBatch(report: PartReport, batchRunId?: string): Promise<boolean>;
  /** Whether this run replaces another by a reset. `false` while it repeats that run's past. */
  wasReset(): boolean;
  show(details: string): void;
}

/** Interval of reports of the first parts. Later parts report less often, so that many don't flood a batch. */
const REPORT_EVERY_MS = 1_000;
const PARTS_AT_FULL_PACE = 10;

/**
 * Interval at which a part asks Temporal about its open follow-ups. Temporal reports their ends, but not to a part that
 * was restarted, or that was closed at that time and is reset later.
 */
const FIRST_LOOK_MS = 2_000;
const LAST_LOOK_MS = 30 * 60_000;
/** The same interval while Temporal reports all ends, as far as the part knows. */
const RARE_LOOK_MS = 6 * 60 * 60_000;
const ASKED_AT_ONCE = 100;
/** Interval at which a part asks for an order that does not come: a new batch with its batch's id may have other parts. */
const ASK_AGAIN_MS = 3_600_000;
/** How long Temporal may take to start a child: a busy server takes seconds. */
const START_WITHIN_MS = 60_000;

const NOT_KEPT: Readonly<ItemOutcome> = {
  error: { type: 'Terminated', message: 'Temporal no longer keeps the follow-up', delivered: 'unknown' },
};

/** Runs the items of a part by its batch's orders, and reports their outcomes. */
export class PartFlow extends Flow {
  readonly #part: Part;
  #isReporting = false;
  #reportedAtMs = -Infinity;
  /** When it asks again for an order that has not come. */
  #asksAgainAtMs = Infinity;
  #hasNews = true;
  /**
   * Whether the run of the batch that sent the latest order has just accepted a report. Only then do follow-ups start.
   * A part that is reset after its batch has ended repeats its past, and would start items that the batch has given up.
   * The run that has the batch's id now, after a reset or another start, may have ended the same items itself.
   */
  #isWanted = false;
  /** Whether it still looks for follow-ups that an earlier run of this part has started. Until then, it starts none. */
  #isAdopting: boolean;
  /** When Temporal has certainly started what an earlier run of this part told it to start. */
  #allStartedAtMs = -Infinity;
  /** Whether it never starts anything again. */
  #hasStopped = false;
  #isCancelled = false;
  #isAskedToCancel = false;
  /** Items whose end Temporal reports to this run. */
  readonly #childItems = new Set<number>();
  /** Items that Temporal may not know, with the outcome to use if a check that begins from then on does not find them. */
  readonly #doubts = new Map<number, { outcome: ItemOutcome; fromMs: number }>();
  #isLooking = false;
  #lookAtMs = Infinity;
  /** Interval of checks while a check may find what is not reported otherwise. */
  #lookEveryMs = FIRST_LOOK_MS;

  /** @param batchRunId the run of the batch that started the part; from the first order on, the run that sent the order */
  constructor(
    readonly input: PartInput,
    private batchRunId: string,
    private readonly port: PartPort,
  ) {
    super();
    this.#part = new Part(input);
    this.#isAdopting = input.again !== undefined;
  }

  receive(order: SentOrder): void {
    this.#asksAgainAtMs = Infinity;
    // The part ignores an older order.
    if (order.number > this.#part.order.number) this.batchRunId = order.batchRunId;
    this.#part.receive(order);
    // A reset of the batch takes its cancel back.
    if (!this.#part.order.cancel) this.#isCancelled = false;
    // Such an order answers a report, and must not lead to another.
    if (order.orphaned) this.#stop('Its batch ended before it was started');
    else this.#note();
  }

  /** A part ends only with an outcome for each item, and its batch decides. It continues, and shows why. */
  refuseCancel(): void {
    this.#isAskedToCancel = true;
    this.wake();
  }

  page({ offset, limit }: { offset: number; limit: number }): BatchItemsPage {
    const { first, items } = this.input;
    const position = offset - first;
    return { total: first + items.length, offset, items: this.#part.items.slice(position, position + limit) };
  }

  async run(): Promise<BatchCounts> {
    const part = this.#part;
    if (this.#isAdopting) this.during(() => this.#adopt());
    for (;;) {
      this.isWoken = false;
      this.#step();
      if (part.hasEnded && !this.#hasNews && this.underWay === 0) return part.counts();
      await this.port.condition(() => this.isWoken);
    }
  }

  /** Finds the follow-ups that an earlier run started, so that none starts twice. */
  async #adopt(): Promise<void> {
    const { again = 0, items } = this.input;
    const missing = await this.#askUntilStarted();
    // Temporal has forgotten some, but not which: none of them may start.
    if (items.length - missing.length < again) for (const position of missing) this.#end(position, NOT_KEPT);
    this.#isAdopting = false;
  }

  /**
   * Asks Temporal about waiting items until it has started what an earlier run of this part told it to start. Returns
   * those that it does not know.
   */
  async #askUntilStarted(): Promise<number[]> {
    const { port } = this;
    const allStartedAtMs = port.nowMs() + START_WITHIN_MS;
    const waiting = this.#part.positions('waiting');
    // Asks twice, so that a cancel also reaches at once what has started already.
    const missing = await this.#ask(waiting);
    if (missing.length === 0) return missing;
    this.#allStartedAtMs = allStartedAtMs;
    this.wake();
    await port.condition(() => port.nowMs() >= allStartedAtMs);
    return this.#ask(missing);
  }

  #step(): void {
    const part = this.#part;
    const nowMs = this.port.nowMs();
    if (part.order.cancel && !this.#isCancelled) {
      this.#isCancelled = true;
      this.#stop('The batch was cancelled before it was started');
      for (const position of part.positions('open')) this.#cancelFollowUp(position);
      this.#lookSoon();
    }
    for (const start of this.#isWanted && !this.#hasStopped ? part.start() : []) {
      this.#note();
      // Not awaited: a run that was reset may never receive the end.
      void this.#runFollowUp(start).finally(() => this.wake());
    }
    this.#isWanted = false;
    if (nowMs < this.#allStartedAtMs) this.port.wakeAt(this.#allStartedAtMs);
    this.#lookAtOpen(nowMs);
    this.#report(nowMs);
    const { batchId } = this.input;
    const details = describePart(part, this.input, nowMs);
    const refusal = `**Cancel refused**: the batch decides. To cancel the whole batch: \`follow-up batch cancel ${batchId}\``;
    this.port.show(this.#isAskedToCancel ? `${refusal}\n\n${details}` : details);
  }

  async #runFollowUp(start: ItemStart): Promise<void> {
    const { position, workflowId } = start;
    this.#childItems.add(position);
    const outcome = await this.port.runFollowUp({ ...start, hash: hashOfItem(start.input) });
    this.#childItems.delete(position);
    if (outcome === 'used') {
      // It was started before, as after a reset.
      const message = `${workflowId} was used before, and Temporal no longer keeps it`;
      this.#doubt(position, { error: { type: 'NotStarted', message, delivered: 'unknown' } });
    } else if (outcome.error?.type === 'Terminated' || outcome.error?.type === 'Other') {
      // Temporal may know more about a run that was cut off, and it may run again.
      this.#doubt(position, outcome);
    } else return this.#end(position, outcome);
    this.#lookSoon(0);
  }

  #doubt(position: number, outcome: ItemOutcome, forMs = 0): void {
    this.#doubts.set(position, { outcome, fromMs: this.port.nowMs() + forMs });
  }

  #end(position: number, outcome: ItemOutcome): void {
    this.#doubts.delete(position);
    this.#part.end(position, outcome);
    this.#note();
  }

  /** Asks Temporal about items, and ends those that have ended. Returns those that Temporal does not know. */
  async #ask(positions: readonly number[]): Promise<number[]> {
    const part = this.#part;
    const { batchId } = this.input;
    const missing: number[] = [];
    for (let from = 0; from < positions.length; from += ASKED_AT_ONCE) {
      const asked = positions.slice(from, from + ASKED_AT_ONCE);
      const items = asked.map((position) => ({
        workflowId: part.workflowIdOf(position),
        ...expectationOf(part.inputOf(position)),
      }));
      const found = await this.port.findItems({ batchId, items });
      for (const [index, position] of asked.entries()) {
        const { outcome, isOpen } = found[index] ?? {};
        if (outcome) this.#end(position, outcome);
        else if (isOpen) this.#noteOpen(position);
        else missing.push(position);
      }
    }
    return missing;
  }

  #noteOpen(position: number): void {
    if (this.#part.noteOpen(position) || this.#doubts.delete(position)) {
      this.#lookSoon();
      this.#note();
    }
    // A request before the follow-up had started, or during its reset, is lost.
    if (this.#part.order.cancel) this.#cancelFollowUp(position);
  }

  #lookAtOpen(nowMs: number): void {
    const open = this.#part.positions('open');
    if (open.length === 0) this.#lookAtMs = nowMs + RARE_LOOK_MS;
    else if (nowMs >= this.#lookAtMs && !this.#isLooking) this.during(() => this.#look(open));
    else if (!this.#isLooking) this.port.wakeAt(this.#lookAtMs);
  }

  async #look(positions: readonly number[]): Promise<void> {
    this.#isLooking = true;
    const askedAtMs = this.port.nowMs();
    const missing = await this.#ask(positions);
    this.#isLooking = false;
    for (const position of missing) {
      const doubt = this.#doubts.get(position);
      if (!doubt) this.#doubt(position, NOT_KEPT, START_WITHIN_MS);
      else if (askedAtMs >= doubt.fromMs) this.#end(position, doubt.outcome);
    }
    const isInDoubt = (position: number) => this.#doubts.has(position) || !this.#childItems.has(position);
    const isUrgent = this.#part.order.cancel || this.#part.positions('open').some(isInDoubt);
    // Unknown items are about to start, or Temporal no longer keeps them.
    if (missing.length > 0) this.#lookEveryMs = FIRST_LOOK_MS;
    this.#lookAtMs = this.port.nowMs() + (isUrgent ? this.#lookEveryMs : RARE_LOOK_MS);
    this.#lookEveryMs = Math.min(2 * this.#lookEveryMs, LAST_LOOK_MS);
  }

  #lookSoon(inMs = FIRST_LOOK_MS): void {
    this.#lookEveryMs = FIRST_LOOK_MS;
    this.#lookAtMs = Math.min(this.#lookAtMs, this.port.nowMs() + inMs);
  }

  #cancelFollowUp(position: number): void {
    this.during(() => this.port.cancelFollowUp(this.#part.workflowIdOf(position)));
  }

  /** Starts nothing more. Withdraws waiting items, unless Temporal knows that another run or part has started them. */
  #stop(message: string): void {
    if (this.#hasStopped) return;
    this.#hasStopped = true;
    this.during(async () => {
      await this.port.condition(() => !this.#isAdopting);
      if (this.port.wasReset()) await this.#askUntilStarted();
      else await this.#ask(this.#part.positions('waiting'));
      const withdrawn: ItemOutcome = { error: { type: 'Cancelled', message, delivered: 'no' } };
      for (const position of this.#part.positions('waiting')) this.#end(position, withdrawn);
      this.#note();
    });
  }

  /** Sends one report at a time, at intervals. The last report is immediate. */
  #report(nowMs: number): void {
    const part = this.#part;
    if (nowMs >= this.#asksAgainAtMs) {
      this.#asksAgainAtMs = Infinity;
      this.#hasNews = true;
    } else if (this.#asksAgainAtMs < Infinity) this.port.wakeAt(this.#asksAgainAtMs);
    // Until it knows what an earlier run started, a report would make its batch forget that.
    if (!this.#hasNews || this.#isReporting || this.#isAdopting) return;
    const dueAtMs = this.#reportedAtMs + REPORT_EVERY_MS * (1 + Math.floor(this.input.part / PARTS_AT_FULL_PACE));
    if (nowMs < dueAtMs && !part.hasEnded) return this.port.wakeAt(dueAtMs);
    this.#hasNews = false;
    this.#isReporting = true;
    this.#reportedAtMs = nowMs;
    this.during(async () => {
      const report = part.report(nowMs);
      const isAccepted = await this.port.reportToBatch(report, this.batchRunId);
      // An order that came meanwhile needs a report of its own, to the run that sent it.
      this.#isWanted = isAccepted && report.order === part.order.number;
      if (isAccepted) part.noteReported(report);
      else if (await this.port.reportToBatch({ ...report, needsOrder: true })) {
        part.noteReported(report);
        // The next report is on the order of the run that runs now, and must reach that run before it closes.
        this.#reportedAtMs = -Infinity;
        if (report.order === part.order.number) this.#asksAgainAtMs = this.port.nowMs() + ASK_AGAIN_MS;
      }
      // The batch no longer runs. New items could be neither seen nor stopped.
      else this.#stop('The batch ended before it was started');
      this.#isReporting = false;
    });
  }

  #note(): void {
    this.#hasNews = true;
    this.wake();
  }
}
