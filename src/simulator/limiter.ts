/**
 * Counts a request at a time in epoch milliseconds and returns 0, or refuses it and returns the milliseconds after
 * which it would fit without other requests. A refused request costs nothing. Times must not go back.
 */
export type Limiter = (nowMs: number) => number;

/** A log of times: at most `limit` in each half-open window (now − windowMs, now]. */
export function slidingLimiter({ limit, windowMs }: { limit: number; windowMs: number }): Limiter {
  const instants: number[] = [];
  return (nowMs) => {
    while (instants[0] !== undefined && instants[0] <= nowMs - windowMs) instants.shift();
    const oldest = instants[0];
    if (oldest !== undefined && instants.length >= limit) return oldest + windowMs - nowMs;
    instants.push(nowMs);
    return 0;
  };
}
