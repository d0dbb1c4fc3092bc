import type { Answer, Ask, BudgetEvent } from '../contract/protocol.js';
import type { Budget, ListedSend, Message } from './budget.js';

/** What the activity that lists sends answers. */
export interface RecentSends {
  /** In the order of their ends; those that run come last. */
  sends: ListedSend[];
  /** How many there are besides, which ended before. */
  others: number;
  /** The lease and the drain of the worker that listed them. */
  leaseMs: number;
  drainMs: number;
  /** The run of the budget that asked. */
  runId: string;
}

/** What a budget needs from its surroundings: a workflow on Temporal, or the simulation. No call rejects. */
export interface BudgetPort {
  /** The first run of this budget, from before any reset. */
  readonly originalRunId: string;
  /** Whether this run has the state of the run before. */
  readonly isContinued: boolean;
  nowMs(): number;
  /** Resolves with `true` when `isOver()`, or with `false` after `ms`. */
  condition(isOver: () => boolean, ms?: number): Promise<boolean>;
  /** Resolves when all asks and orders of the workflow task are answered. */
  allAnswered(): Promise<void>;
  /** Tells a follow-up something. Resolves with `false` if it does not run, and with `true` if anything else happened. */
  send(message: Message): Promise<boolean>;
  /** Lists follow-ups that may have been sent; repeated until there is an answer. */
  listRecentSends(query: { sinceMs: number; alsoWaiting: boolean }): Promise<RecentSends>;
  /**
   * Whether a reset started this run after the run `runId` counted. Replays give the same answer as the first time.
   */
  wasResetSince(runId: string): boolean;
  /** Whether the run has so many events that the next one should begin. */
  isLong(): boolean;
  /** Whether it has so many that the next one must begin, also while this one counts. */
  isTooLong(): boolean;
  /** Shows people the state of the budget. */
  show(): void;
}

/**
 * Runs a budget. Handlers of asks and events only change its state. The loop sends messages and starts timers after all
 * of them have answered: a replay may deliver the messages of a workflow task one by one, and a timer that starts
 * between two answers would stand elsewhere in its commands.
 */
export class BudgetLoop {
  #isChanged = true;
  #messagesUnderWay = 0;
  /** The run that last found out what was sent without its knowledge, or did not need to. */
  #countedIn: string;
  #isResetNoted = false;

  constructor(
    readonly budget: Budget,
    private readonly port: BudgetPort,
  ) {
    this.#countedIn = port.originalRunId;
  }

  ask(ask: Ask): Answer {
    return this.change((nowMs) => this.budget.ask(nowMs, ask));
  }

  hear(event: BudgetEvent): void {
    this.change((nowMs) => this.budget.hear(nowMs, event));
  }

  /** Applies an event or an order. */
  change<T>(event: (nowMs: number) => T): T {
    this.#isChanged = true;
    this.#noteReset();
    return event(this.port.nowMs());
  }

  /**
   * Runs until the next run should begin.
   *
   * @param assumeFull first books as many sends as the limit leaves
   */
  async run(assumeFull: boolean): Promise<void> {
    const { budget, port } = this;
    for (let isFull = assumeFull; ; isFull = false) {
      await port.allAnswered();
      this.#noteReset();
      if (this.#mayEnd()) return;
      this.#isChanged = false;
      if (budget.state.isCounting) await this.#count();
      if (isFull) budget.assumeFull(port.nowMs());
      budget.advance(port.nowMs());
      for (const message of budget.takeMessages()) void this.#send(message);
      port.show();
      const nextMs = budget.nextChangeMs(port.nowMs());
      const isOver = () => this.#isChanged || this.#mayEnd();
      if (nextMs === undefined) await port.condition(isOver);
      else await port.condition(isOver, Math.max(1, nextMs - port.nowMs()));
    }
  }

  #mayEnd(): boolean {
    const isIdle = this.#messagesUnderWay === 0 && !this.#isChanged;
    return isIdle && (this.budget.state.isCounting ? this.port.isTooLong() : this.port.isLong());
  }

  async #send(message: Message): Promise<void> {
    this.#messagesUnderWay += 1;
    const isFound = await this.port.send(message);
    if (!isFound) this.change((nowMs) => this.budget.missed(nowMs, message));
    this.#messagesUnderWay -= 1;
  }

  /** What a reset run granted after the point of the reset is forgotten. */
  #noteReset(): void {
    if (this.#isResetNoted || !this.port.wasResetSince(this.#countedIn)) return;
    this.#isResetNoted = true;
    this.budget.state.isCounting = true;
    this.budget.state.rememberedSinceMs = this.port.nowMs();
  }

  async #count(): Promise<void> {
    const found = await this.#findUnknownSends();
    await this.port.allAnswered();
    if (!found) return;
    const { waiting, sent } = found;
    // Bytes of those that were under way may still arrive.
    this.budget.book(this.port.nowMs(), sent.sends, sent);
    this.budget.wake(waiting);
    if (this.#isResetNoted) this.#countedIn = sent.runId;
    this.#isResetNoted = false;
  }

  /**
   * Follow-ups may have been sent within the window that this budget does not know: an earlier budget of the project let
   * them through, or this one did before it was reset. Those under way end within a lease, and then they are listed.
   *
   * @returns them, and follow-ups that may wait for an answer of an earlier budget; `undefined` if the next run has to
   *   begin first
   */
  async #findUnknownSends(): Promise<{ sent: RecentSends; waiting: string[] } | undefined> {
    const { budget, port } = this;
    const isTooLong = () => port.isTooLong();
    // A list that does not answer would keep the run until the server takes no more asks and orders.
    const list = (query: Parameters<BudgetPort['listRecentSends']>[0]) =>
      Promise.race([port.listRecentSends(query), port.condition(isTooLong).then(() => undefined)]);
    for (;;) {
      if (isTooLong()) return undefined;
      const { windowMs, marginMs } = budget.state.settings;
      const sinceMs = port.nowMs() - windowMs - marginMs;
      const first = await list({ sinceMs, alsoWaiting: true });
      if (!first) return undefined;
      this.#noteReset();
      // An operator may set a longer window meanwhile.
      const isLonger = () => budget.state.settings.windowMs > windowMs;
      const isEmpty = first.sends.length === 0 && first.others === 0;
      // Temporal's list may not yet show what was let through right before a reset.
      const isNew = !this.#isResetNoted && !port.isContinued;
      if (isEmpty && isNew && !isLonger()) return { sent: first, waiting: [] };
      if (await port.condition(isTooLong, first.leaseMs)) return undefined;
      const last = await list({ sinceMs, alsoWaiting: false });
      if (!last) return undefined;
      this.#noteReset();
      if (last.runId !== first.runId) {
        // There was a reset in between, and what was let through since is forgotten.
        budget.state.rememberedSinceMs = port.nowMs();
      } else if (!isLonger()) {
        const waiting = first.sends.filter(({ isWaiting }) => isWaiting).map(({ workflowId }) => workflowId);
        return { sent: last, waiting };
      }
    }
  }
}
