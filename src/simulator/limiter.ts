/** How a service counts requests against its limit. */
export const limiterKinds = ['sliding', 'fixed', 'token-bucket', 'weighted', 'none'] as const;
export type LimiterKind = (typeof limiterKinds)[number];

export interface LimiterOptions {
  kind: LimiterKind;
  /** Requests per window. */
  limit: number;
  windowMs: number;
  /** Capacity of the token bucket. 1 paces strictly. @default limit */
  burst?: number | undefined;
}

/** Decides at an instant that is passed in, in epoch milliseconds. Instants must not go back. */
export interface Limiter {
  /** Counts a request, or refuses it. A refused request costs nothing. */
  take(nowMs: number): boolean;
  /** Milliseconds until {@link take} would succeed if nobody else asked, 0 for at once. */
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

/** A log of instants: at most `limit` in every half-open window (now − windowMs, now]. */
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
  /** How far into a window the count of the one before weighs no more than `room`. */
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
