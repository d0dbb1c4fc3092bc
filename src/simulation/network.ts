import { askAgainAfterMs } from '../activities/ask-again.js';
import type { Budget, Effects } from '../budget/index.js';
import type { AcquireRequest, LeaveMessage, SettleMessage } from '../contract/index.js';
import type { Ask, GateHost } from './gate-host.js';
import { Later, sleep, type Steps } from './process.js';
import type { World } from './world.js';

/** Answer on this side to an ask that was let go. */
const LET_GO: Ask = {
  answer: { kind: 'wait', reason: 'budget-silent', waitMs: 5_000, position: 0, etaMs: null },
  proven: false,
};

/** The way to the gate: what goes over it may be lost, late, overtaken, or applied twice. */
export class Network {
  readonly #world: World;
  readonly #gate: GateHost;

  /** Asks by the hour. */
  readonly #asks: number[] = [];

  constructor(world: World, gate: GateHost) {
    this.#world = world;
    this.#gate = gate;
  }

  /** Asks of the hour with most of them. */
  asksInAnyHour(): number {
    return Math.max(0, ...this.#asks.filter((asks) => asks > 0));
  }

  /**
   * One ask, as the budget client makes it: a call that fails is repeated with the same token, and an ask that is not
   * answered in time is let go. The gate may hear it all the same.
   */
  *ask(request: AcquireRequest): Steps<Ask> {
    const { timeline, chance, counts, faults } = this.#world;
    counts.asks += 1;
    const hour = Math.floor(timeline.nowMs / 3_600_000);
    this.#asks[hour] = (this.#asks[hour] ?? 0) + 1;
    const { askForMs } = this.#world.sizes;
    const letGoAtMs = timeline.nowMs + (faults.strikes('letGo') ? chance.between(20, askForMs) : askForMs);
    if (faults.strikes('duplicated')) {
      timeline.after(chance.between(50, 20_000), () => this.#gate.ask(request, () => undefined));
    }
    const line = { isLetGo: false };
    for (let timesTurnedAway = 0; ;) {
      const ask = yield* this.#call(request, letGoAtMs - timeline.nowMs, line);
      if (ask && ask !== 'exhausted') return ask;
      timesTurnedAway = ask ? timesTurnedAway + 1 : 0;
      const waitMs = askAgainAfterMs(timesTurnedAway, chance.between(0, 1));
      if (timeline.nowMs + waitMs >= letGoAtMs) {
        line.isLetGo = true;
        return LET_GO;
      }
      yield* sleep(timeline, waitMs);
    }
  }

  /** One call. `undefined`: it failed, at once or at its deadline. */
  *#call(
    request: AcquireRequest,
    leftMs: number,
    line: { readonly isLetGo: boolean },
  ): Steps<Ask | 'exhausted' | undefined> {
    const { timeline, chance, faults, sizes } = this.#world;
    const deadlineMs = Math.min(sizes.callDeadlineMs, leftMs);
    const answered = new Later<Ask | 'exhausted' | undefined>(timeline).expire(deadlineMs, undefined);
    // A connection that breaks is noticed soon, or not before the deadline.
    const isNoticed = chance.happens(0.5);
    const lose = (): void => {
      if (isNoticed) answered.expire(chance.between(5, 1_000), undefined);
    };
    if (faults.strikes('lost')) lose();
    else {
      timeline.after(this.#world.delayMs(50, 9_000), () => {
        this.#gate.ask(request, (ask) => {
          if (faults.strikes('lost')) return lose();
          timeline.after(this.#world.delayMs(40, 3_000), () => {
            answered.set(ask);
            if (line.isLetGo && ask !== 'exhausted' && ask.answer.kind === 'granted') this.#giveBack(request);
          });
        });
      });
    }
    return yield* answered.get();
  }

  /** A call of the server that notes something; whether it is known to have done so. */
  *note(take: () => boolean): Steps<boolean> {
    const { timeline, faults } = this.#world;
    yield* sleep(timeline, this.#world.delayMs(20, 2_000));
    if (faults.strikes('lost')) return false;
    const isTaken = take();
    yield* sleep(timeline, this.#world.delayMs(20, 2_000));
    return isTaken && !faults.strikes('lost');
  }

  /** Tells how a send ended. The sender does not wait for the gate to have handled it. */
  *settle(message: SettleMessage): Steps<void> {
    this.#world.note('  settle', message.workflowId, message.sendNumber, message.outcome);
    if (!this.#world.faults.strikes('settleLost')) this.#tell((budget, timeMs) => budget.settle(timeMs, message));
    yield* sleep(this.#world.timeline, this.#world.chance.between(5, 60));
  }

  /** What was granted to an ask that was let go is never sent. */
  #giveBack({ workflowId, sendNumber, token }: AcquireRequest): void {
    if (this.#world.faults.strikes('settleLost')) return;
    this.#tell((budget, timeMs) => budget.settle(timeMs, { workflowId, sendNumber, token, outcome: 'notSent' }));
  }

  /** Tells what a read says about the key. */
  keyRead(isRefused: boolean): void {
    this.#tell((budget, timeMs) => budget.keyRead(timeMs, { isRefused }));
  }

  /** Tells the end of a follow-up, from workflow to workflow: the server loses nothing, but there may be no gate. */
  *leave(message: LeaveMessage): Steps<void> {
    this.#world.note('  leave', message.workflowId, message.sendNumber, message.outcome);
    this.#tell((budget, timeMs) => budget.leave(timeMs, message));
    yield* sleep(this.#world.timeline, this.#world.chance.between(5, 60));
  }

  #tell(event: (budget: Budget, timeMs: number) => Effects): void {
    const { timeline, chance, faults } = this.#world;
    timeline.after(this.#world.delayMs(60, 15_000), () => this.#gate.tell(event));
    if (faults.strikes('duplicated')) timeline.after(chance.between(100, 20_000), () => this.#gate.tell(event));
  }
}
