import type { BudgetCeiling, BudgetSettings } from '../src/contract/protocol.js';
import type { Breakage } from './breakages.js';
import { Chance } from './chance.js';
import { drawFaults, Faults } from './faults.js';
import { type Calm, drawCalm, type Profile } from './profiles.js';
import { EPOCH_MS, HEALED_AT_MS, LARGE_LIMIT, type Sizes, SMALL } from './sizes.js';
import { Timeline } from './timeline.js';

/** Receives one line of a trace. */
export type Trace = (line: string) => void;

/** Counters for the statistics. The checker uses none of them. */
export interface Counts {
  asks: number;
  wakes: number;
  timers: number;
  grants: number;
  posts: number;
  /** Runs of the budget that ended in continue-as-new. */
  budgetRuns: number;
  /** Follow-ups whose delivery was in doubt. */
  unknown: number;
  /** Of these, follow-ups that never began a POST. */
  falseUnknown: number;
}

/** Time, randomness and faults of one seed, which all parts of the simulated world share. */
export class World {
  readonly timeline = new Timeline();
  readonly chance: Chance;
  readonly faults: Faults;
  /** Missing in a world with faults. */
  readonly calm: Calm | undefined;
  readonly sizes: Sizes;
  /** What the budget grants by itself. If only the workers' ceiling is right, that is more than the service accepts. */
  readonly settings: Omit<BudgetSettings, 'marginMs'>;
  readonly counts: Counts = {
    asks: 0,
    wakes: 0,
    timers: 0,
    grants: 0,
    posts: 0,
    budgetRuns: 0,
    unknown: 0,
    falseUnknown: 0,
  };
  readonly #trace: Trace | undefined;
  #tokens = 0;

  constructor(
    seed: number,
    readonly profile: Profile,
    readonly broken: ReadonlySet<Breakage>,
    trace?: Trace,
  ) {
    this.chance = new Chance(seed);
    this.calm = drawCalm(profile, this.chance);
    const limit = this.chance.happens(0.1) ? LARGE_LIMIT : SMALL.limit;
    this.sizes = this.calm?.sizes ?? { ...SMALL, limit };
    this.faults = new Faults(this.timeline, this.chance, drawFaults(this.chance, this.chaotic));
    this.settings = this.drawSettings(this.sizes.limit, 1);
    if (this.calm) this.settings.reserve = this.calm.reserve ?? 0;
    this.#trace = trace;
  }

  /** The most that workers let any budget grant. */
  get ceiling(): BudgetCeiling | undefined {
    const { limit, windowMs } = this.sizes;
    return this.faults.rates.ceiling > 0 && !this.broken.has('ceiling') ? { limit, windowMs } : undefined;
  }

  get chaotic(): boolean {
    return this.calm === undefined;
  }

  /** Settings of a budget that should grant at most `limit` messages in that many windows. */
  drawSettings(limit: number, windows: number): Omit<BudgetSettings, 'marginMs'> {
    const { chance, faults, sizes } = this;
    const isForged = faults.rates.ceiling > 0;
    return {
      limit: isForged ? limit * chance.whole(1, 3) : limit,
      windowMs: Math.round(sizes.windowMs * windows * (isForged ? chance.between(0.1, 1) : 1)),
      // From none to half of the limit.
      reserve: chance.happens(0.5) ? chance.whole(0, Math.floor(limit / 2)) : 0,
    };
  }

  /** Writes a line of the trace, if there is one. */
  note(...words: (string | number | undefined)[]): void {
    if (!this.#trace) return;
    const seconds = (this.timeline.nowMs / 1_000).toFixed(2).padStart(8);
    this.#trace([seconds, ...words.filter((word) => word !== undefined)].join(' '));
  }

  /** A token that no other attempt has. */
  newToken(): string {
    return `t${++this.#tokens}`;
  }

  /** A short delay, or a long one with the `slow` fault, in milliseconds. */
  delayMs(longestMs: number, slowMs: number): number {
    return this.chance.between(5, this.faults.strikes('slow') ? slowMs : longestMs);
  }
}

/** The clock of a Temporal server host, in epoch milliseconds. Hosts differ from the service by at most half the margin. */
export class ServerClock {
  readonly #timeline: Timeline;
  #offsetMs = 0;

  constructor({ timeline, chance, faults, sizes: { marginMs } }: World) {
    this.#timeline = timeline;
    for (let jump = 0; jump < faults.rates.clockJumps * 4; jump++) {
      timeline.at(chance.between(0, HEALED_AT_MS), () => {
        this.#offsetMs = chance.between(-marginMs / 2, marginMs / 2);
      });
    }
  }

  nowMs(): number {
    return Math.floor(EPOCH_MS + this.#timeline.nowMs + this.#offsetMs);
  }
}
