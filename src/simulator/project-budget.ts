import { createLimiter, type Limiter, type LimiterOptions } from './limiter.js';
import type { Random } from './random.js';

/** Somebody else who spends the same project's budget. */
export interface OutsiderOptions {
  /** Mean share of the limit that is spent by others, from 0 to 1. Their requests come at random (Poisson). */
  share: number;
}

/** What one project may still send: the limiter, and the requests of others that it counts as well. */
export class ProjectBudget {
  readonly #instants: number[] = [];
  readonly #random: Random;
  #options: LimiterOptions;
  #limiter: Limiter;
  #outsider: OutsiderOptions;
  #outsiderAtMs: number;
  /** Requests of others that the limiter counted. */
  outsiderRequests = 0;

  constructor(options: LimiterOptions, outsider: OutsiderOptions, random: Random, nowMs: number) {
    this.#options = options;
    this.#limiter = createLimiter(options);
    this.#outsider = outsider;
    this.#random = random;
    this.#outsiderAtMs = this.#nextOutsiderAtMs(nowMs);
  }

  /** Counts a request, or says in how many milliseconds one would fit. */
  take(nowMs: number): { taken: boolean; availableInMs: number } {
    this.#letOutsidersIn(nowMs);
    if (this.#limiter.take(nowMs)) {
      this.#instants.push(nowMs);
      return { taken: true, availableInMs: 0 };
    }
    return { taken: false, availableInMs: this.#limiter.availableInMs(nowMs) };
  }

  /** Changes the rules. What was counted before counts under the new rules, too. */
  reconfigure(options: LimiterOptions, outsider: OutsiderOptions, nowMs: number): void {
    this.#letOutsidersIn(nowMs);
    this.#options = options;
    this.#limiter = createLimiter(options);
    for (const instant of this.#instants) this.#limiter.take(instant);
    this.#outsider = outsider;
    this.#outsiderAtMs = this.#nextOutsiderAtMs(nowMs);
  }

  #letOutsidersIn(nowMs: number): void {
    while (this.#outsiderAtMs <= nowMs) {
      if (this.#limiter.take(this.#outsiderAtMs)) {
        this.#instants.push(this.#outsiderAtMs);
        this.outsiderRequests++;
      }
      this.#outsiderAtMs = this.#nextOutsiderAtMs(this.#outsiderAtMs);
    }
  }

  #nextOutsiderAtMs(fromMs: number): number {
    const { limit, windowMs, kind } = this.#options;
    if (this.#outsider.share <= 0 || kind === 'none') return Number.POSITIVE_INFINITY;
    const meanGapMs = windowMs / (limit * this.#outsider.share);
    // Never 0, which would keep the loop above at one instant for good.
    return fromMs + Math.max(0.001, -Math.log(1 - this.#random.next()) * meanGapMs);
  }
}
