import type { FindItemsInput, FoundItem, PartInput, PartOrder, PartReport } from '../contract/batch-protocol.js';
import type { ItemOutcome } from '../contract/batch-result.js';
import type { BatchCounts } from '../contract/index.js';
import { describePart } from './details.js';
import { expectationOf, hashOfItem } from './pack.js';
import { type ItemStart, Part } from './part.js';

/** What a part needs of Temporal. */
export interface PartPort {
  nowMs(): number;
  condition(isOver: () => boolean): Promise<unknown>;
  /** Calls {@link PartFlow.wake} at that time, or a little later. */
  wakeAt(atMs: number): void;
  /**
   * Runs the follow-up of an item to its end.
   *
   * @returns its outcome; `used` if its workflow id was used before
   */
  runFollowUp(start: ItemStart & { hash: string }): Promise<ItemOutcome | 'used'>;
  /** Cancels a follow-up, if it runs. */
  cancelFollowUp(workflowId: string): Promise<unknown>;
  /** How follow-ups stand, in the order of the items. */
  findItems(input: FindItemsInput): Promise<FoundItem[]>;
  /** Reports to the batch. Returns `false` if no workflow with its id runs. */
  tellBatch(report: PartReport): Promise<boolean>;
  show(details: string): void;
}

/** Time between two reports of one of the first parts. Later parts report less often, so that many don't flood a batch. */
const REPORT_EVERY_MS = 1_000;
const PARTS_AT_FULL_PACE = 10;

/**
 * How often a part asks Temporal about its open follow-ups. Temporal reports their ends, but not to a part that was
 * started again, or that was closed at that time and is reset later.
 */
const FIRST_LOOK_MS = 2_000;
const LAST_LOOK_MS = 30 * 60_000;
/** The same while Temporal reports the ends of all of them, as far as the part knows. */
const RARE_LOOK_MS = 6 * 60 * 60_000;
/** Items of one call of `findItems`. */
const ASKED_AT_ONCE = 100;

const GONE: Readonly<ItemOutcome> = {
  error: { type: 'Terminated', message: 'Temporal no longer keeps the follow-up', delivered: 'unknown' },
};

/** Runs the items of a part as its batch orders, and reports how they ended. */
export class PartFlow {
  readonly #part: Part;
  /** Whether something has happened since the last step. */
  #woken = true;
  /** Follow-ups, signals and look-ups under way. */
  #underWay = 0;
  #isReporting = false;
  #reportedAtMs = -Infinity;
  #hasNews = true;
  /**
   * Whether its batch has just taken a report. Follow-ups start only then: a part that is reset after its batch has ended
   * repeats its past, and would start what the batch has given up.
   */
  #isWanted = false;
  /** Whether its batch no longer exists. */
  #isOrphan = false;
  #isAskedToCancel = false;
  /** Items about which Temporal is to be asked, with the outcome that counts if it knows nothing. */
  readonly #doubts = new Map<number, ItemOutcome>();
  #isLooking = false;
  /** Open items whose end Temporal does not report to this run. */
  readonly #unheard = new Set<number>();
  /** Open items that Temporal did not know when it was last asked: they are about to start, or it no longer keeps them. */
  readonly #missing = new Set<number>();
  #lookEveryMs = RARE_LOOK_MS;
  #lookAtMs = Infinity;

  constructor(
    readonly input: PartInput,
    private readonly port: PartPort,
  ) {
    this.#part = new Part(input);
  }

  wake(): void {
    this.#woken = true;
  }

  hear(order: PartOrder): void {
    this.#isOrphan = order.orphaned ?? false;
    this.#part.obey(order);
    if (order.orphaned) this.#stop('Its batch ended before it was started');
    this.#note();
  }

  /** A part ends only with an outcome for each item, and its batch decides. After a cancel it continues, and says why. */
  refuseCancel(): void {
    this.#isAskedToCancel = true;
    this.wake();
  }

  /** Answers the query `batchItems`. */
  page({ offset, limit }: { offset: number; limit: number }) {
    const { first, items } = this.input;
    const count = Math.max(0, Math.min(limit, first + items.length - offset));
    const found = Array.from({ length: count }, (_, place) => this.#part.itemAt(offset - first + place));
    return { total: first + items.length, offset, items: found };
  }

  /** Runs until every item has ended and the batch knows it. */
  async run(): Promise<BatchCounts> {
    const part = this.#part;
    if (this.input.again !== undefined) await this.#takeOver(this.input.again);
    for (;;) {
      this.#woken = false;
      this.#step();
      if (part.hasEnded && !this.#hasNews && this.#underWay === 0) return part.counts();
      await this.port.condition(() => this.#woken);
    }
  }

  #step(): void {
    const part = this.#part;
    const nowMs = this.port.nowMs();
    if (part.order.cancel && !part.hasStopped) {
      this.#stop('The batch was cancelled before it was started');
      for (const position of part.positions('open')) this.#cancelFollowUp(position);
      this.#lookSoon();
    }
    for (const start of this.#isWanted ? part.start() : []) {
      this.#note();
      this.#during(() => this.#runFollowUp(start));
    }
    this.#isWanted = false;
    if (this.#doubts.size > 0 && !this.#isLooking) this.#during(() => this.#settleDoubts());
    this.#lookAtOpen(nowMs);
    this.#report(nowMs);
    const { batchId } = this.input;
    const details = describePart(part, this.input, nowMs);
    const refusal = `**Was asked to cancel, but continues**: its batch decides. To cancel the whole batch: \`follow-up batch cancel ${batchId}\``;
    this.port.show(this.#isAskedToCancel ? `${refusal}\n\n${details}` : details);
  }

  async #runFollowUp(start: ItemStart): Promise<void> {
    const { position, workflowId } = start;
    const outcome = await this.port.runFollowUp({ ...start, hash: hashOfItem(start.input) });
    if (outcome === 'used') {
      // It was started before, as happens after a reset.
      const message = `${workflowId} was used before, and Temporal no longer keeps it`;
      this.#doubts.set(position, { error: { type: 'NotStarted', message, delivered: 'unknown' } });
    } else if (outcome.error?.type === 'Terminated' || outcome.error?.type === 'Other') {
      // Temporal may know more of a run that was cut off, and it may run again.
      this.#doubts.set(position, outcome);
    } else this.#end(position, outcome);
  }

  #end(position: number, outcome: ItemOutcome): void {
    this.#unheard.delete(position);
    this.#missing.delete(position);
    this.#part.end(position, outcome);
    this.#note();
  }

  async #settleDoubts(): Promise<void> {
    this.#isLooking = true;
    const doubts = new Map(this.#doubts);
    this.#doubts.clear();
    const { gone } = await this.#adopt([...doubts.keys()]);
    for (const position of gone) this.#end(position, doubts.get(position) ?? GONE);
    this.#isLooking = false;
  }

  /**
   * Learns what became of its items before it was started again.
   *
   * @param begun how many of them had begun, as far as the batch knows
   */
  async #takeOver(begun: number): Promise<void> {
    const part = this.#part;
    const { gone } = await this.#adopt(part.positions('waiting'));
    // Temporal has forgotten some, and nobody knows which: none of the others is started a second time.
    if (this.input.items.length - gone.length < begun) for (const position of gone) this.#end(position, GONE);
  }

  /** Asks Temporal about items that may have been started before, and watches those that are open. */
  async #adopt(positions: readonly number[]): Promise<{ gone: number[] }> {
    const { open, gone } = await this.#find(positions);
    for (const position of open) {
      if (this.#unheard.has(position)) continue;
      this.#unheard.add(position);
      this.#part.noteOpen(position);
      this.#lookSoon();
      if (this.#part.order.cancel) this.#cancelFollowUp(position);
      this.#note();
    }
    return { gone };
  }

  /** Asks Temporal about items, and ends those that have ended. */
  async #find(positions: readonly number[]): Promise<{ open: number[]; gone: number[] }> {
    const found: { open: number[]; gone: number[] } = { open: [], gone: [] };
    const items = positions.map((position) => ({
      workflowId: this.#part.workflowIdOf(position),
      ...expectationOf(this.#part.inputOf(position)),
    }));
    const { batchId } = this.input;
    const answers: FoundItem[] = [];
    for (let from = 0; from < items.length; from += ASKED_AT_ONCE) {
      answers.push(...(await this.port.findItems({ batchId, items: items.slice(from, from + ASKED_AT_ONCE) })));
    }
    for (const [place, position] of positions.entries()) {
      const { outcome, isOpen } = answers[place] ?? {};
      if (outcome) this.#end(position, outcome);
      else found[isOpen ? 'open' : 'gone'].push(position);
    }
    return found;
  }

  #lookAtOpen(nowMs: number): void {
    const open = this.#part.positions('open');
    if (open.length === 0) return;
    if (nowMs >= this.#lookAtMs) {
      const isUrgent = this.#unheard.size > 0 || this.#missing.size > 0 || this.#part.order.cancel;
      this.#lookEveryMs = isUrgent ? Math.min(2 * this.#lookEveryMs, LAST_LOOK_MS) : RARE_LOOK_MS;
      this.#lookAtMs = Infinity;
      this.#during(() => this.#look(open));
    }
    if (this.#lookAtMs === Infinity) this.#lookAtMs = nowMs + this.#lookEveryMs;
    this.port.wakeAt(this.#lookAtMs);
  }

  async #look(positions: readonly number[]): Promise<void> {
    const { open, gone } = await this.#find(positions);
    for (const position of open) {
      this.#missing.delete(position);
      // A request that came before the follow-up had started, or while it was reset, is lost.
      if (this.#part.order.cancel) this.#cancelFollowUp(position);
    }
    for (const position of gone) {
      if (this.#missing.has(position)) this.#end(position, GONE);
      else this.#missing.add(position);
    }
    if (gone.length > 0) this.#lookSoon();
  }

  #lookSoon(): void {
    this.#lookEveryMs = FIRST_LOOK_MS;
    this.#lookAtMs = this.port.nowMs() + FIRST_LOOK_MS;
    this.wake();
  }

  #cancelFollowUp(position: number): void {
    this.#during(() => this.port.cancelFollowUp(this.#part.workflowIdOf(position)));
  }

  /** Starts nothing more. What waits is withdrawn, unless Temporal knows that another run or part has started it. */
  #stop(message: string): void {
    if (this.#part.hasStopped) return;
    this.#part.stop();
    this.#during(async () => {
      await this.#adopt(this.#part.positions('waiting'));
      this.#part.withdraw(message);
      this.#note();
    });
  }

  /** Reports one at a time, and not too often. The last report goes out at once. */
  #report(nowMs: number): void {
    const part = this.#part;
    if (this.#isOrphan) this.#hasNews = false;
    if (!this.#hasNews || this.#isReporting) return;
    const dueAtMs = this.#reportedAtMs + REPORT_EVERY_MS * (1 + Math.floor(this.input.part / PARTS_AT_FULL_PACE));
    if (nowMs < dueAtMs && !part.hasEnded) return this.port.wakeAt(dueAtMs);
    this.#hasNews = false;
    this.#isReporting = true;
    this.#reportedAtMs = nowMs;
    this.#during(async () => {
      const report = part.report(nowMs);
      this.#isWanted = await this.port.tellBatch(report);
      if (this.#isWanted) part.noteReported(report);
      else {
        // The batch no longer runs. Nobody could see or stop what would be started from now on.
        this.#isOrphan = true;
        this.#stop('The batch ended before it was started');
      }
      this.#isReporting = false;
    });
  }

  #note(): void {
    this.#hasNews = true;
    this.wake();
  }

  #during(work: () => Promise<unknown>): void {
    this.#underWay += 1;
    void work().finally(() => {
      this.#underWay -= 1;
      this.wake();
    });
  }
}
