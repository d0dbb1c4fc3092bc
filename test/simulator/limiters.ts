import { type Limiter, slidingLimiter } from '../../src/simulator/limiter.js';
import type { Random } from '../../src/simulator/random.js';

// How other services count requests against their limit.

export const limiterKinds = ['sliding', 'fixed', 'token-bucket', 'weighted'] as const;

interface LimiterOptions {
  kind: (typeof limiterKinds)[number];
  limit: number;
  windowMs: number;
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
  }
}

/** Windows aligned to the epoch, each with a new count. Up to twice the limit can pass around a boundary. */
function fixedLimiter({ limit, windowMs }: LimiterOptions): Limiter {
  let index = -1;
  let count = 0;
  return (nowMs) => {
    const nowIndex = Math.floor(nowMs / windowMs);
    if (nowIndex !== index) count = 0;
    index = nowIndex;
    if (count >= limit) return (index + 1) * windowMs - nowMs;
    count++;
    return 0;
  };
}

/** Refills continuously, `limit` tokens per window, up to `limit`. Starts full. */
function tokenBucketLimiter({ limit, windowMs }: LimiterOptions): Limiter {
  // In units of 1/limit ms since the first use, a token takes `windowMs` units: whole numbers, without rounding errors.
  let firstMs: number | undefined;
  let fullAtUnits = 0;
  return (nowMs) => {
    const nowUnits = (nowMs - (firstMs ??= nowMs)) * limit;
    const waitUnits = fullAtUnits - nowUnits - (limit - 1) * windowMs;
    if (waitUnits > 0) return Math.ceil(waitUnits / limit);
    fullAtUnits = Math.max(fullAtUnits, nowUnits) + windowMs;
    return 0;
  };
}

/**
 * The usual hosted "sliding window": the previous fixed window's count, weighted by its overlap with the rolling
 * window, plus the current one's. An estimate, which may refuse what a log of times would accept.
 */
function weightedLimiter({ limit, windowMs }: LimiterOptions): Limiter {
  let index = -1;
  let previous = 0;
  let current = 0;
  // Time into a window at which the previous count weighs at most `room`.
  const overlapFitsAtMs = (count: number, room: number): number =>
    count <= room ? 0 : Math.ceil((windowMs * (count - room)) / count);
  return (nowMs) => {
    const nowIndex = Math.floor(nowMs / windowMs);
    if (nowIndex !== index) {
      previous = nowIndex === index + 1 ? current : 0;
      current = 0;
      index = nowIndex;
    }
    const elapsedMs = nowMs - index * windowMs;
    if (current >= limit) return windowMs + overlapFitsAtMs(current, limit - 1) - elapsedMs;
    const waitMs = Math.max(0, overlapFitsAtMs(previous, limit - current - 1) - elapsedMs);
    if (waitMs === 0) current++;
    return waitMs;
  };
}

/** A limiter whose limit other clients also use: a mean share, 0 to 1, at random times (Poisson). */
export function shareLimiter(options: LimiterOptions, share: number, random: Random, startMs: number): Limiter {
  const limiter = createLimiter(options);
  if (share <= 0) return limiter;
  const meanGapMs = options.windowMs / (options.limit * share);
  // Never 0, which would stop the loop below at one time.
  const drawGapMs = (): number => Math.max(0.001, -Math.log(1 - random.next()) * meanGapMs);
  let nextMs = startMs + drawGapMs();
  return (nowMs) => {
    for (; nextMs <= nowMs; nextMs += drawGapMs()) limiter(nextMs);
    return limiter(nowMs);
  };
}
