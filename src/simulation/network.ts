import type { Budget, Effects } from '../budget/index.js';
import type { AcquireRequest, LeaveMessage, SettleMessage } from '../contract/index.js';
import type { Ask, GateHost } from './gate-host.js';
import { Later, sleep, type Process, type Steps } from './process.js';
import { ASK_DEADLINE_MS } from './sizes.js';
import type { World } from './world.js';

/** Between two tries of an ask while the server cannot be reached. */
const RETRY_AFTER_MS = 250;

/** The way to the gate: what goes over it may be lost, late, overtaken, or applied twice. */
export class Network {
  readonly #world: World;
  readonly #gate: GateHost;

  constructor(world: World, gate: GateHost) {
    this.#world = world;
    this.#gate = gate;
  }

  /**
   * One ask of a process, as the budget client makes it: repeated with the same token while the server cannot be
   * reached, until its deadline. `undefined`: it threw.
   */
  *ask(process: Process, request: AcquireRequest): Steps<Ask | undefined> {
    const { timeline, chance, counts, faults } = this.#world;
    counts.asks += 1;
    const answered = new Later<Ask | undefined>(timeline).expire(ASK_DEADLINE_MS, undefined);
    const tryOnce = (): void => {
      if (answered.isSet || process.dead) return;
      if (faults.strikes('lost')) return tryAgain();
      timeline.after(this.#world.delayMs(50, 9_000), () => {
        this.#gate.ask(request, (ask) => {
          if (faults.strikes('lost')) return tryAgain();
          timeline.after(this.#world.delayMs(40, 3_000), () => answered.set(ask));
        });
      });
    };
    // A connection that broke is noticed at once, or not before the deadline.
    const tryAgain = (): void => {
      if (chance.happens(0.5)) timeline.after(RETRY_AFTER_MS + chance.between(5, 1_000), tryOnce);
    };
    tryOnce();
    if (faults.strikes('duplicated')) {
      timeline.after(chance.between(50, 20_000), () => this.#gate.ask(request, () => undefined));
    }
    return yield* answered.get();
  }

  /** Tells how a send ended. The sender does not wait for the gate to have handled it. */
  *settle(message: SettleMessage): Steps<void> {
    this.#world.note('  settle', message.workflowId, message.sendNumber, message.outcome);
    if (!this.#world.faults.strikes('settleLost')) this.#tell((budget, timeMs) => budget.settle(timeMs, message));
    yield* sleep(this.#world.timeline, this.#world.chance.between(5, 60));
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
