import type { Random } from './random.js';

/** How a service counts requests against its limit. */
export const limiterKinds = ['sliding', 'fixed', 'token-bucket', 'weighted', 'none'] as const;
export type LimiterKind = (typeof limiterKinds)[number];

interface LimiterOptions {
  kind: LimiterKind;
  /** Requests per window. */
  limit: number;
  windowMs: number;
  /** Capacity of the token bucket. 1 paces strictly. @default limit */
  burst?: number | undefined;
}

/** Decides at a given instant in epoch milliseconds. Instants must not go back. */
export interface Limiter {
  /** Counts a request, or refuses it. A refused request costs nothing. */
  take(nowMs: number): boolean;
  /** Milliseconds until {@link take} would succeed if nothing else is taken; 0 for now. */
  availableInMs(nowMs: number): number;
}

export function createLimiter(options: LimiterOptions): Limiter {
  switch (options.kind) {
    case 'sliding':
      return slidingLimiter(options);
    case 'fixed':
      return fixedLimiter(options);
    case 'token-bucket':
      return tokenBucketLimiter(options);
    case 'weighted':
      return weightedLimiter(options);
    case 'none':
      return { take: () => true, availableInMs: () => 0 };
  }
}

/** A log of instants: at most `limit` in each half-open window (now − windowMs, now]. */
function slidingLimiter({ limit, windowMs }: LimiterOptions): Limiter {
  const instants: number[] = [];
  const availableInMs = (nowMs: number): number => {
    while (instants[0] !== undefined && instants[0] <= nowMs - windowMs) instants.shift();
    const oldest = instants[0];
    return instants.length < limit || oldest === undefined ? 0 : oldest + windowMs - nowMs;
  };
  return takeWhenAvailable(availableInMs, (nowMs) => instants.push(nowMs));
}

/** Windows aligned to the epoch, each with a new count. Up to twice the limit can pass around a boundary. */
function fixedLimiter({ limit, windowMs }: LimiterOptions): Limiter {
  let index = -1;
  let count = 0;
  const availableInMs = (nowMs: number): number => {
    const nowIndex = Math.floor(nowMs / windowMs);
    if (nowIndex !== index) {
      index = nowIndex;
      count = 0;
    }
    return count < limit ? 0 : (index + 1) * windowMs - nowMs;
  };
  return takeWhenAvailable(availableInMs, () => count++);
}

/** Refills continuously, `limit` tokens per window, up to `burst`. Starts full. */
function tokenBucketLimiter({ limit, windowMs, burst = limit }: LimiterOptions): Limiter {
  // In units of 1/limit ms since the first use a token takes `windowMs` units: whole numbers, so no rounding adds up.
  let firstMs: number | undefined;
  let fullAtUnits = 0;
  const unitsAt = (nowMs: number): number => (nowMs - (firstMs ??= nowMs)) * limit;
  const availableInMs = (nowMs: number): number => {
    const waitUnits = fullAtUnits - unitsAt(nowMs) - (burst - 1) * windowMs;
    return Math.max(0, Math.ceil(waitUnits / limit));
  };
  return takeWhenAvailable(availableInMs, (nowMs) => {
    fullAtUnits = Math.max(fullAtUnits, unitsAt(nowMs)) + windowMs;
  });
}

/**
 * The usual hosted "sliding window": the previous fixed window's count, weighted by how much of it the rolling window
 * still overlaps, plus the current one's. An estimate: it may refuse what a log of instants would take.
 */
function weightedLimiter({ limit, windowMs }: LimiterOptions): Limiter {
  let index = -1;
  let previous = 0;
  let current = 0;
  const availableInMs = (nowMs: number): number => {
    const nowIndex = Math.floor(nowMs / windowMs);
    if (nowIndex !== index) {
      previous = nowIndex === index + 1 ? current : 0;
      current = 0;
      index = nowIndex;
    }
    const elapsedMs = nowMs - index * windowMs;
    if (current + 1 <= limit) return Math.max(0, overlapFitsAtMs(previous, limit - current - 1) - elapsedMs);
    return windowMs + overlapFitsAtMs(current, limit - 1) - elapsedMs;
  };
  /** How far into a window the previous count weighs at most `room`. */
  const overlapFitsAtMs = (count: number, room: number): number =>
    count <= room ? 0 : Math.ceil((windowMs * (count - room)) / count);
  return takeWhenAvailable(availableInMs, () => current++);
}

function takeWhenAvailable(availableInMs: (nowMs: number) => number, count: (nowMs: number) => void): Limiter {
  return {
    availableInMs,
    take(nowMs) {
      if (availableInMs(nowMs) > 0) return false;
      count(nowMs);
      return true;
    },
  };
}

/** Another client that uses the same project's limit. */
interface OutsiderOptions {
  /** Mean share of the limit that others use, from 0 to 1. Their requests arrive at random (Poisson). */
  share: number;
}

/** What one project may still send: its limiter, which also counts the requests of others. */
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

  /** Counts a request, or returns in how many milliseconds one would fit. */
  take(nowMs: number): { taken: boolean; availableInMs: number } {
    this.#letOutsidersIn(nowMs);
    if (this.#limiter.take(nowMs)) {
      this.#instants.push(nowMs);
      return { taken: true, availableInMs: 0 };
    }
    return { taken: false, availableInMs: this.#limiter.availableInMs(nowMs) };
  }

  /** Changes the rules. Earlier requests count under the new rules, too. */
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
