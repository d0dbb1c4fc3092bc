import {
  assumeFull,
  Budget,
  type CarriedState,
  carryState,
  type Effects,
  newState,
  reopen,
  restoreState,
} from '../src/budget/index.js';
import type { AcquireAnswer, AcquireRequest, BudgetSettings, BudgetWord } from '../src/contract/protocol.js';
import { withBrokenRules } from './breakages.js';
import { HEALED_AT_MS } from './sizes.js';
import type { ServerClock, World } from './world.js';

/** The answer to an ask. `proven`: the budget itself answered. */
export interface Ask {
  answer: AcquireAnswer;
  proven: boolean;
}

/** What the budget does to follow-ups. */
export interface Surroundings {
  /** Signals a follow-up. Returns whether it still runs. */
  signal(workflowId: string, what: 'wake' | 'stillThere'): boolean;
  /** A request got a slot for the first time. */
  granted(workflowId: string): void;
}

/** The answer that the budget client makes up for a budget that was terminated. */
const BUDGET_STOPPED: Ask = {
  answer: { kind: 'wait', reason: 'gate-stopped', waitMs: 60_000, position: 0, etaMs: null },
  proven: false,
};

/** Most updates that the server allows in flight. */
const MOST_UPDATES_IN_FLIGHT = 10;

/** A terminated budget is restored after this time. */
const RESTORED_AFTER_MS = 5_000;

/** An operator repeats an update that failed after this time, which is longer than the budget's worker is ever away. */
const OPERATOR_RETRY_MS = 70_000;

const PROJECT_ID = 'p';

/**
 * The real rules of the budget, run as Temporal runs them: messages in, signals and one timer out, continue-as-new
 * through JSON, a worker that goes away, a budget that is terminated and restored.
 */
export class BudgetHost {
  readonly #world: World;
  readonly #clock: ServerClock;
  readonly #surroundings: Surroundings;
  #budget: Budget;
  /** Timers and outstanding signals belong to one run. */
  #run = 1;
  #timerAtMs: number | undefined;
  #downUntilMs = 0;
  #updatesInFlight = 0;
  #askCount = 0;
  #changes = 0;
  #stopped = false;
  #isDeleted = false;
  readonly #granted = new Set<string>();

  constructor(world: World, clock: ServerClock, surroundings: Surroundings) {
    this.#world = world;
    this.#clock = clock;
    this.#surroundings = surroundings;
    this.#budget = this.#emptyBudget();
    this.#planFaults();
  }

  /** The rules and their state, for measurements. */
  get budget(): Budget {
    return this.#budget;
  }

  /** The budget time of an event that happened now. */
  get timeMs(): number {
    return Math.max(this.#budget.state.lastTimeMs, this.#clock.nowMs());
  }

  /** An update arrives, with words. `respond` is never called for one that is lost. */
  ask(request: AcquireRequest, words: readonly BudgetWord[], respond: (ask: Ask | 'exhausted') => void): void {
    if (this.#isDeleted) this.#startAnew();
    if (this.#stopped) return respond(BUDGET_STOPPED);
    const isDown = this.#isDown();
    if (isDown && this.#updatesInFlight >= MOST_UPDATES_IN_FLIGHT) {
      return respond('exhausted');
    }
    if (isDown) this.#updatesInFlight += 1;
    this.#handleWhenUp((budget, timeMs) => {
      if (isDown) this.#updatesInFlight -= 1;
      const askNumber = ++this.#askCount;
      const heard = this.#world.broken.has('askNumber') ? { ...request, askNumber } : request;
      const [[answer], effects] = budget.acquireAll(timeMs, [heard], words);
      if (!answer) throw new Error('an ask got no answer');
      const requestId = `${request.workflowId}#${request.sendNumber}`;
      this.#note(request, answer);
      if (answer.kind === 'granted' && !this.#granted.has(requestId)) {
        this.#granted.add(requestId);
        this.#surroundings.granted(request.workflowId);
      }
      respond({ answer, proven: true });
      return effects;
    });
  }

  /** An empty call arrives. All that counts is that it is answered. */
  probe(respond: () => void): void {
    const { timeline } = this.#world;
    timeline.at(this.#stopped ? timeline.nowMs : Math.max(timeline.nowMs, this.#downUntilMs), respond);
  }

  #note({ workflowId, sendNumber, hold, token }: AcquireRequest, answer: AcquireAnswer): void {
    const wait = answer.kind === 'wait' ? `${answer.reason} ${answer.waitMs} ms` : undefined;
    const outcome = answer.kind === 'done' ? answer.outcome : undefined;
    const asked = [`${workflowId}#${sendNumber}`, hold ? 'hold' : undefined, 'token', token];
    this.#world.note('  budget', ...asked, '->', answer.kind, wait, outcome);
  }

  /** A signal arrives. Returns whether there is a budget to receive it. */
  tell(event: (budget: Budget, timeMs: number) => Effects): boolean {
    if (this.#stopped) return false;
    this.#handleWhenUp(event);
    return true;
  }

  #isDown(): boolean {
    return this.#world.timeline.nowMs < this.#downUntilMs;
  }

  #handleWhenUp(event: (budget: Budget, timeMs: number) => Effects): void {
    if (!this.#isDown()) return this.#handle(event);
    const { timeline, chance } = this.#world;
    timeline.at(this.#downUntilMs + chance.between(1, 50), () => {
      if (!this.#stopped) this.#handle(event);
    });
  }

  #handle(event: (budget: Budget, timeMs: number) => Effects): void {
    const timeMs = this.#clock.nowMs();
    const effects = withBrokenRules(this.#world.broken, { budget: this.#budget, timeMs }, () =>
      event(this.#budget, timeMs),
    );
    this.#carryOut(effects);
    if (this.#world.faults.strikes('continueAsNew')) this.#beginRun(this.#carried());
  }

  #carryOut({ wake, check, lookAgainAtMs }: Effects): void {
    this.#world.counts.wakes += wake.length;
    for (const workflowId of wake) this.#signal(workflowId, 'wake');
    for (const workflowId of check) this.#signal(workflowId, 'stillThere');
    if (lookAgainAtMs !== undefined) this.#lookAgain(lookAgainAtMs);
  }

  /** A run that has ended never hears whether its signals arrived. */
  #signal(workflowId: string, what: 'wake' | 'stillThere'): void {
    const run = this.#run;
    this.#world.timeline.after(this.#world.delayMs(100, 4_000), () => {
      if (this.#surroundings.signal(workflowId, what) || run !== this.#run || this.#stopped) return;
      this.#world.note('  ', what, 'failed', workflowId);
      this.#handleWhenUp((budget, timeMs) => budget.gone(timeMs, workflowId));
    });
  }

  /** One timer at a time: an earlier time starts another, a later one waits for the running timer. */
  #lookAgain(atMs: number): void {
    if (this.#timerAtMs !== undefined && this.#timerAtMs <= atMs) return;
    this.#timerAtMs = atMs;
    const run = this.#run;
    const delayMs = Math.max(1, atMs - this.#clock.nowMs()) + this.#world.chance.between(5, 20);
    this.#world.timeline.after(delayMs, () => {
      if (run !== this.#run || this.#timerAtMs !== atMs || this.#stopped) return;
      this.#timerAtMs = undefined;
      this.#world.counts.timers += 1;
      this.#handleWhenUp((budget, timeMs) => budget.tick(timeMs));
    });
  }

  #beginRun(budget: Budget): void {
    this.#budget = budget;
    this.#run += 1;
    this.#timerAtMs = undefined;
    this.#world.counts.budgetRuns += 1;
    this.#carryOut(budget.tick(this.#clock.nowMs()));
  }

  /** The state as the next run receives it: through JSON. */
  #carried(): Budget {
    const text = JSON.stringify(carryState(this.#budget.state));
    return new Budget(restoreState(JSON.parse(text) as CarriedState));
  }

  #emptyBudget(): Budget {
    return new Budget(newState(PROJECT_ID, this.#settings(), this.#clock.nowMs()));
  }

  #settings(): BudgetSettings {
    const { settings, sizes, broken } = this.#world;
    return { ...settings, marginMs: broken.has('clock') ? 0 : sizes.marginMs };
  }

  #planFaults(): void {
    const { timeline, chance, faults, calm, sizes } = this.#world;
    if (faults.rates.budgetDown > 0) {
      const forMs = chance.happens(0.2) ? 60_000 : chance.between(1_000, 20_000);
      this.#planSilence(chance.between(0, HEALED_AT_MS - 70_000), forMs);
    }
    for (const { atMs, forMs } of calm?.silences ?? []) this.#planSilence(atMs, forMs);
    if (faults.rates.budgetTerminated > 0) timeline.at(chance.between(5_000, HEALED_AT_MS), () => this.#terminate());
    if (faults.rates.budgetDeleted > 0) timeline.at(chance.between(5_000, HEALED_AT_MS), () => this.#delete());
    if (faults.rates.budgetLost > 0) timeline.at(chance.between(5_000, HEALED_AT_MS), () => this.#lose());
    for (let pause = 0; pause < faults.rates.operatorPauses * 2; pause++) this.#planPause();
    if (faults.rates.liveChanges > 0) {
      for (let change = 0; change < 3; change++) {
        timeline.at(chance.between(0, HEALED_AT_MS), () => {
          const windows = chance.happens(0.5) ? chance.between(1, 2) : 1;
          this.#change(this.#world.drawSettings(chance.whole(1, sizes.limit), windows));
        });
      }
      timeline.at(HEALED_AT_MS, () => this.#change(this.#settings()));
    }
  }

  #planSilence(atMs: number, forMs: number): void {
    const { timeline } = this.#world;
    timeline.at(atMs, () => {
      this.#world.note('BUDGET SILENT', forMs, 'ms');
      this.#downUntilMs = timeline.nowMs + forMs;
    });
  }

  #change({ limit, windowMs, reserve }: Omit<BudgetSettings, 'marginMs'>): void {
    this.#world.note('LIMIT', limit, 'window', windowMs, 'reserve', reserve);
    const change = ++this.#changes;
    // A change that was overtaken while no budget accepted it is not repeated.
    this.#operate((budget, timeMs) =>
      budget.setLimit(timeMs, change === this.#changes ? { limit, windowMs, reserve } : {}),
    );
  }

  /** Ends by itself, or is resumed. */
  #planPause(): void {
    const { timeline, chance } = this.#world;
    const forMs = chance.whole(1_000, 60_000);
    const isResumed = chance.happens(0.5);
    const resume = (): void => {
      this.#world.note('RESUME');
      this.#operate((budget, timeMs) => budget.resume(timeMs));
    };
    timeline.at(chance.between(0, HEALED_AT_MS - 60_000), () => {
      this.#world.note('PAUSE', isResumed ? 'until resumed' : `for ${forMs} ms`);
      this.#operate(
        (budget, timeMs) => budget.pause(timeMs, isResumed ? {} : { forMs }),
        () => {
          if (isResumed) timeline.after(forMs, resume);
        },
      );
    });
  }

  /** An operator's update: awaited, and repeated if no budget accepted it. */
  #operate(event: (budget: Budget, timeMs: number) => Effects, onDone: () => void = () => undefined): void {
    let isDone = false;
    const send = (): void => {
      if (isDone) return;
      this.tell((budget, timeMs) => {
        if (!isDone) onDone();
        isDone = true;
        return event(budget, timeMs);
      });
      this.#world.timeline.after(OPERATOR_RETRY_MS, send);
    };
    send();
  }

  #terminate(): void {
    if (this.#stopped) return;
    this.#world.note('BUDGET TERMINATED');
    if (this.#world.broken.has('restore')) return this.#beginRun(this.#emptyBudget());
    const carried = carryState(this.#budget.state);
    this.#stopUntilRestored(() => {
      const state = restoreState(carried);
      reopen(state, this.#clock.nowMs());
      return new Budget(state);
    });
  }

  /** What an operator does if the last run can no longer be read. */
  #lose(): void {
    if (this.#stopped) return;
    this.#world.note('BUDGET LOST');
    const { sizes } = this.#world;
    const inFlightUntilMs = this.#clock.nowMs() + sizes.leaseMs + sizes.drainMs;
    this.#stopUntilRestored(() => {
      const { state } = this.#emptyBudget();
      assumeFull(state, this.#clock.nowMs(), inFlightUntilMs);
      return new Budget(state);
    });
  }

  /** Deleted at once, or a while after its end. */
  #delete(): void {
    if (this.#stopped) return;
    const { chance, timeline } = this.#world;
    this.#world.note('BUDGET TERMINATED, TO BE DELETED');
    this.#stopped = true;
    this.#updatesInFlight = 0;
    timeline.after(chance.happens(0.5) ? 0 : chance.between(1, 100_000), () => {
      this.#world.note('BUDGET DELETED');
      this.#isDeleted = true;
    });
  }

  #startAnew(): void {
    this.#stopped = false;
    this.#isDeleted = false;
    this.#beginRun(this.#emptyBudget());
  }

  #stopUntilRestored(restored: () => Budget): void {
    this.#stopped = true;
    this.#updatesInFlight = 0;
    this.#world.timeline.after(RESTORED_AFTER_MS, () => {
      this.#world.note('BUDGET RESTORED');
      this.#stopped = false;
      this.#beginRun(restored());
    });
  }
}
