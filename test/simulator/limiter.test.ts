import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createLimiter, limiterKinds, type Limiter } from '../../src/simulator/limiter.js';
import { maxInAnyWindow } from '../../src/simulator/ledger.js';

const WINDOW_MS = 1_000;

/** How many of `count` requests at the same time are accepted. */
function takeMany(limiter: Limiter, nowMs: number, count: number): number {
  return Array.from({ length: count }, () => limiter.take(nowMs)).filter(Boolean).length;
}

describe('a limiter with a sliding window', () => {
  test('frees a place exactly one window after it was taken, and not a millisecond before', () => {
    const limiter = createLimiter({ kind: 'sliding', limit: 2, windowMs: WINDOW_MS });
    expect(limiter.take(100)).toBe(true);
    expect(limiter.take(400)).toBe(true);
    expect(limiter.take(1_099)).toBe(false);
    expect(limiter.availableInMs(1_099)).toBe(1);
    expect(limiter.take(1_100)).toBe(true);
    expect(limiter.take(1_399)).toBe(false);
    expect(limiter.take(1_400)).toBe(true);
  });
});

describe('a limiter with fixed windows', () => {
  test('starts again from 0 at the boundary, so twice the limit passes around it', () => {
    const limiter = createLimiter({ kind: 'fixed', limit: 5, windowMs: WINDOW_MS });
    expect(takeMany(limiter, 1_999, 6)).toBe(5);
    expect(limiter.availableInMs(1_999)).toBe(1);
    expect(takeMany(limiter, 2_000, 6)).toBe(5);
  });
});

describe('a token bucket', () => {
  test('starts full and refills one token at a time', () => {
    const limiter = createLimiter({ kind: 'token-bucket', limit: 10, windowMs: WINDOW_MS });
    expect(takeMany(limiter, 0, 20)).toBe(10);
    expect(limiter.availableInMs(0)).toBe(100);
    expect(limiter.take(99)).toBe(false);
    expect(limiter.take(100)).toBe(true);
    expect(limiter.take(100)).toBe(false);
    expect(takeMany(limiter, 600, 20)).toBe(5);
  });

  test('paces strictly with a burst of one', () => {
    const limiter = createLimiter({ kind: 'token-bucket', limit: 10, windowMs: WINDOW_MS, burst: 1 });
    expect(takeMany(limiter, 5_000, 3)).toBe(1);
    expect(limiter.take(5_099)).toBe(false);
    expect(takeMany(limiter, 5_100, 3)).toBe(1);
  });
});

describe('a limiter that weights the previous window', () => {
  test('counts the part of the previous window that the rolling window still overlaps', () => {
    const limiter = createLimiter({ kind: 'weighted', limit: 10, windowMs: WINDOW_MS });
    expect(takeMany(limiter, 1_900, 20)).toBe(10);
    expect(limiter.availableInMs(1_900)).toBe(200);
    // 10 × (1 − 0.099) = 9.01, and this request makes it more than 10.
    expect(limiter.take(2_099)).toBe(false);
    expect(limiter.take(2_100)).toBe(true);
    expect(limiter.take(2_199)).toBe(false);
    expect(limiter.take(2_200)).toBe(true);
    // Half of the previous window is left: 5, and 2 of this window.
    expect(takeMany(limiter, 2_500, 20)).toBe(3);
    expect(limiter.availableInMs(2_500)).toBe(100);
  });

  test('forgets a window that is not the previous one', () => {
    const limiter = createLimiter({ kind: 'weighted', limit: 10, windowMs: WINDOW_MS });
    expect(takeMany(limiter, 1_900, 20)).toBe(10);
    expect(takeMany(limiter, 3_000, 20)).toBe(10);
  });
});

describe('every limiter', () => {
  test.each(limiterKinds)('accepts a request after the wait that it gives, and none before: %s', (kind) => {
    const gaps = fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(gaps, fc.integer({ min: 1, max: 7 }), (gapsMs, limit) => {
        const history: number[] = [];
        let nowMs = 0;
        const limiter = createLimiter({ kind, limit, windowMs: WINDOW_MS });
        for (const gapMs of gapsMs) {
          nowMs += gapMs;
          const waitMs = limiter.availableInMs(nowMs);
          expect(limiter.take(nowMs)).toBe(waitMs === 0);
          if (waitMs === 0) history.push(nowMs);
        }
        const waitMs = limiter.availableInMs(nowMs);
        if (waitMs > 0) {
          const again = replay(createLimiter({ kind, limit, windowMs: WINDOW_MS }), history);
          expect(again.take(nowMs + waitMs - 1)).toBe(false);
          expect(again.take(nowMs + waitMs)).toBe(true);
        }
        if (kind === 'sliding') expect(maxInAnyWindow(history, WINDOW_MS)).toBeLessThanOrEqual(limit);
      }),
      { numRuns: 300 },
    );
  });

  function replay(limiter: Limiter, history: readonly number[]): Limiter {
    for (const instant of history) limiter.take(instant);
    return limiter;
  }
});

describe('the most requests in any rolling window', () => {
  test('agrees with a count over every window that begins with a request', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 5_000 }), { maxLength: 80 }), (instants) => {
        const counts = instants.map((from) => instants.filter((at) => at >= from && at < from + WINDOW_MS).length);
        expect(maxInAnyWindow(instants, WINDOW_MS)).toBe(Math.max(0, ...counts));
      }),
    );
  });
});
