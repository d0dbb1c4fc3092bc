import { type PatchPort, wasResetAfter } from '../common/index.js';
import type { Ask, AskReply, FollowUpReport } from '../protocol/index.js';
import type { Budget, FollowUpSignal } from './budget.js';
import { assumeFull, type ListedFollowUp } from './counting.js';

export interface RecentSends {
  /** Waiting ones first, then closed ones in the order of their ends, then running ones. */
  sends: ListedFollowUp[];
  /** Number of further sends, which ended earlier. */
  others: number;
  /** Of the worker that listed them. */
  leaseMs: number;
  drainMs: number;
  /** The run of the budget that asked. */
  runId: string;
}

/** What a budget needs from its environment: a Temporal workflow or the simulation. No call rejects. */
export interface BudgetPort extends PatchPort {
  /** This run or, after resets, the first of the runs that it replaces. */
  readonly originalRunId: string;
  readonly runId: string;
  readonly isContinued: boolean;
  nowMs(): number;
  /** Resolves with `true` when `isOver()`, or with `false` after `ms`. */
  condition(isOver: () => boolean, ms?: number): Promise<boolean>;
  /** Resolves when all asks and operators' updates in the workflow task have their replies. */
  allAnswered(): Promise<void>;
  /** Resolves with `false` only if the follow-up does not run. */
  signal(signal: FollowUpSignal): Promise<boolean>;
  /** Lists follow-ups that may have sent. Repeats until there is a result. */
  listRecentSends(query: { sinceMs: number }): Promise<RecentSends>;
  /** Whether the next run should begin: this one has many events, or belongs to an old version of the worker. */
  isNextRunDue(): boolean;
  /** Whether the next run must begin, even while this one counts. */
  mustNextRunBegin(): boolean;
  show(): void;
}

/**
 * Runs a budget. Handlers of asks and events only change the state; the loop sends messages and starts timers after all
 * of them have replied. A replay may deliver the messages of a workflow task one at a time, so a timer started between
 * two replies would come at another point among the commands.
 */
export class BudgetLoop {
  #isChanged = true;
  #signalsUnderWay = 0;
  /** The run up to which the budget knows every grant. */
  #countedIn: string;
  #isResetNoted = false;

  constructor(
    readonly budget: Budget,
    private readonly port: BudgetPort,
  ) {
    this.#countedIn = port.originalRunId;
  }

  ask(ask: Ask): AskReply {
    return this.change((nowMs) => this.budget.ask(nowMs, ask));
  }

  receive(report: FollowUpReport): void {
    this.change((nowMs) => this.budget.receive(nowMs, report));
  }

  change<T>(event: (nowMs: number) => T): T {
    this.#isChanged = true;
    this.#noteReset();
    return event(this.port.nowMs());
  }

  /**
   * Runs until the next run should begin.
   *
   * @param isToAssumeFull whether all free slots are first booked as used
   */
  async run(isToAssumeFull: boolean): Promise<void> {
    const { budget, port } = this;
    let mustAssumeFull = isToAssumeFull;
    for (;;) {
      await port.allAnswered();
      this.#noteReset();
      if (this.#mayEnd()) return;
      this.#isChanged = false;
      if (budget.state.isCounting) await this.#count();
      if (mustAssumeFull) assumeFull(budget.state, port.nowMs());
      mustAssumeFull = false;
      budget.advance(port.nowMs());
      for (const signal of budget.flushSignals()) void this.#signal(signal);
      port.show();
      const nextMs = budget.nextChangeMs(port.nowMs());
      const isOver = () => this.#isChanged || this.#mayEnd();
      if (nextMs === undefined) await port.condition(isOver);
      else await port.condition(isOver, Math.max(1, nextMs - port.nowMs()));
    }
  }

  #mayEnd(): boolean {
    const isIdle = this.#signalsUnderWay === 0 && !this.#isChanged;
    return isIdle && (this.budget.state.isCounting ? this.port.mustNextRunBegin() : this.port.isNextRunDue());
  }

  async #signal(signal: FollowUpSignal): Promise<void> {
    this.#signalsUnderWay += 1;
    const isFound = await this.port.signal(signal);
    if (!isFound) this.change((nowMs) => this.budget.noteClosed(nowMs, signal));
    this.#signalsUnderWay -= 1;
  }

  /** Counts again after a reset: the grants since the reset point are forgotten. */
  #noteReset(): void {
    if (this.#isResetNoted || !wasResetAfter(this.port, this.#countedIn)) return;
    this.#isResetNoted = true;
    this.budget.state.isCounting = true;
    this.budget.state.rememberedSinceMs = this.port.nowMs();
  }

  async #count(): Promise<void> {
    const found = await this.#findForgottenSends();
    await this.port.allAnswered();
    if (!found) return;
    const { waiting, sent } = found;
    // Bytes of sends in progress may still arrive.
    this.budget.book(this.port.nowMs(), sent.sends, sent);
    this.budget.wake(waiting);
    if (this.#isResetNoted) this.#countedIn = sent.runId;
    this.#isResetNoted = false;
  }

  /**
   * Finds sends within the window that this budget does not know, because an earlier budget of the project, or this one
   * before a reset, granted them. Sends in progress end within a lease, and are then listed.
   *
   * @returns those sends, and follow-ups that may wait for an earlier budget's reply; `undefined` if the next run has
   *   to begin first
   */
  async #findForgottenSends(): Promise<{ sent: RecentSends; waiting: string[] } | undefined> {
    const { budget, port } = this;
    const mustNextRunBegin = () => port.mustNextRunBegin();
    // Without a result, the run would continue until the server accepts no more asks and updates.
    const list = (query: Parameters<BudgetPort['listRecentSends']>[0]) =>
      Promise.race([port.listRecentSends(query), port.condition(mustNextRunBegin).then(() => undefined)]);
    for (;;) {
      if (mustNextRunBegin()) return undefined;
      const { windowMs, marginMs } = budget.state.settings;
      const sinceMs = port.nowMs() - windowMs - marginMs;
      const first = await list({ sinceMs });
      if (!first) return undefined;
      this.#noteReset();
      // An operator may set a longer window in the meantime.
      const isLonger = () => budget.state.settings.windowMs > windowMs;
      const isEmpty = first.sends.length === 0 && first.others === 0;
      // Temporal's list may not yet show the grants just before a reset.
      const isNew = !this.#isResetNoted && !port.isContinued;
      if (isEmpty && isNew && !isLonger()) return { sent: first, waiting: [] };
      if (await port.condition(mustNextRunBegin, first.leaseMs)) return undefined;
      const last = await list({ sinceMs });
      if (!last) return undefined;
      this.#noteReset();
      if (last.runId !== first.runId) {
        // A reset came in between, and the grants since then are forgotten.
        budget.state.rememberedSinceMs = port.nowMs();
      } else if (!isLonger()) {
        const waiting = last.sends.filter(({ isWaiting }) => isWaiting).map(({ workflowId }) => workflowId);
        // After a lease, the state of a follow-up no longer lags behind a grant.
        const sends = last.sends.filter(({ isWaiting, sentAtMs }) => !isWaiting || sentAtMs !== undefined);
        return { sent: { ...last, sends }, waiting };
      }
    }
  }
}
