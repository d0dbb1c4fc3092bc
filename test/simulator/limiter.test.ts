import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createLimiter, limiterKinds, type Limiter, shareLimiter } from '../../src/simulator/limiter.js';
import { maxInAnyWindow } from '../../src/simulator/ledger.js';
import { createRandom } from '../../src/simulator/random.js';

const WINDOW_MS = 1_000;

/** How many of `count` requests at the same time are accepted. */
function takeMany(limiter: Limiter, nowMs: number, count: number): number {
  return Array.from({ length: count }, () => limiter(nowMs)).filter((waitMs) => waitMs === 0).length;
}

test('a sliding window frees a place exactly one window after it was taken', () => {
  const limiter = createLimiter({ kind: 'sliding', limit: 2, windowMs: WINDOW_MS });
  expect([100, 400, 1_099, 1_100, 1_399, 1_400].map(limiter)).toEqual([0, 0, 1, 0, 1, 0]);
});

test('fixed windows start again from 0 at the boundary, so twice the limit passes around it', () => {
  const limiter = createLimiter({ kind: 'fixed', limit: 5, windowMs: WINDOW_MS });
  expect(takeMany(limiter, 1_999, 6)).toBe(5);
  expect(limiter(1_999)).toBe(1);
  expect(takeMany(limiter, 2_000, 6)).toBe(5);
});

test('a token bucket starts full and refills one token at a time', () => {
  const limiter = createLimiter({ kind: 'token-bucket', limit: 10, windowMs: WINDOW_MS });
  expect(takeMany(limiter, 0, 20)).toBe(10);
  expect([0, 99, 100, 100].map(limiter)).toEqual([100, 1, 0, 100]);
  expect(takeMany(limiter, 600, 20)).toBe(5);
});

describe('a limiter that weights the previous window', () => {
  test('counts the part of the previous window that the rolling window still overlaps', () => {
    const limiter = createLimiter({ kind: 'weighted', limit: 10, windowMs: WINDOW_MS });
    expect(takeMany(limiter, 1_900, 20)).toBe(10);
    // 10 × (1 − 0.099) = 9.01, and this request makes it more than 10.
    expect([1_900, 2_099, 2_100, 2_199, 2_200].map(limiter)).toEqual([200, 1, 0, 1, 0]);
    // Half of the previous window is left: 5, and 2 of this window.
    expect(takeMany(limiter, 2_500, 20)).toBe(3);
    expect(limiter(2_500)).toBe(100);
  });

  test('forgets a window that is not the previous one', () => {
    const limiter = createLimiter({ kind: 'weighted', limit: 10, windowMs: WINDOW_MS });
    expect(takeMany(limiter, 1_900, 20)).toBe(10);
    expect(takeMany(limiter, 3_000, 20)).toBe(10);
  });
});

test.each(limiterKinds)('accepts a request after the wait that it gives, and none before: %s', (kind) => {
  const gaps = fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 1, maxLength: 60 });
  fc.assert(
    fc.property(gaps, fc.integer({ min: 1, max: 7 }), (gapsMs, limit) => {
      const taken: number[] = [];
      let nowMs = 0;
      let waitMs = 0;
      const limiter = createLimiter({ kind, limit, windowMs: WINDOW_MS });
      for (const gapMs of gapsMs) {
        nowMs += gapMs;
        waitMs = limiter(nowMs);
        if (waitMs === 0) taken.push(nowMs);
      }
      if (waitMs > 0) {
        const again = createLimiter({ kind, limit, windowMs: WINDOW_MS });
        expect(takeAll(again, taken)).toBe(taken.length);
        expect(again(nowMs + waitMs - 1)).toBeGreaterThan(0);
        expect(again(nowMs + waitMs)).toBe(0);
      }
      if (kind === 'sliding') expect(maxInAnyWindow(taken, WINDOW_MS)).toBeLessThanOrEqual(limit);
    }),
    { numRuns: 300 },
  );
});

const takeAll = (limiter: Limiter, instants: readonly number[]) =>
  instants.filter((instant) => limiter(instant) === 0).length;

test('a shared limit is spent by others at about their share, and in the same way for the same seed', () => {
  const left = [1, 1, 2].map((seed) => {
    const options = { kind: 'sliding', limit: 1_000, windowMs: WINDOW_MS } as const;
    return takeMany(shareLimiter(options, 0.3, createRandom(seed), 0), 20_000, 1_000);
  });
  expect(left[0]).toBe(left[1]);
  expect(left[0]).not.toBe(left[2]);
  expect(left[0]).toBeGreaterThan(640);
  expect(left[0]).toBeLessThan(760);
});

test('the most requests in any rolling window agree with a count over every window that begins with a request', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 5_000 }), { maxLength: 80 }), (instants) => {
      const counts = instants.map((from) => instants.filter((at) => at >= from && at < from + WINDOW_MS).length);
      expect(maxInAnyWindow(instants, WINDOW_MS)).toBe(Math.max(0, ...counts));
    }),
  );
});
