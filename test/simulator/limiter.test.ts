import fc from 'fast-check';
import { expect, test } from 'vitest';
import { maxInAnyWindow } from '../../src/simulator/ledger.js';
import type { Limiter } from '../../src/simulator/limiter.js';
import { createRandom } from '../../src/simulator/random.js';
import { createLimiter, limiterKinds, shareLimiter } from './limiters.js';

const windowMs = 1_000;
type Kind = (typeof limiterKinds)[number];

/** How many of `count` requests at the same time are accepted. */
const takeMany = (limiter: Limiter, nowMs: number, count: number) =>
  Array.from({ length: count }, () => limiter(nowMs)).filter((waitMs) => waitMs === 0).length;

type Counts = Record<number, number>;
/** How many of 20 requests are accepted, by their time, and how long a request has to wait after that, by its time. */
test.each<[what: string, kind: Kind, limit: number, accepted: Counts, waitsMs: Counts]>([
  [
    'a sliding window frees a place a window after it was taken',
    'sliding',
    2,
    { 100: 2, 1_100: 2 },
    { 2_099: 1, 2_100: 0 },
  ],
  ['fixed windows start again from 0 at the boundary', 'fixed', 5, { 1_999: 5, 2_000: 5 }, { 2_001: 999 }],
  ['a token bucket starts full and refills by tokens', 'token-bucket', 10, { 0: 10, 600: 6 }, { 600: 100, 700: 0 }],
  // 10 × (1 − 0.099) = 9.01, and this request makes it more than 10.
  [
    'of weighted windows, the previous one counts by its overlap',
    'weighted',
    10,
    { 1_900: 10 },
    { 1_900: 200, 2_099: 1, 2_100: 0 },
  ],
  [
    'of weighted windows, half of the previous one counts half',
    'weighted',
    10,
    { 1_900: 10, 2_500: 5 },
    { 2_500: 100 },
  ],
  ['of weighted windows, one before the previous one is forgotten', 'weighted', 10, { 1_900: 10, 3_000: 10 }, {}],
])('%s', (_what, kind, limit, accepted, waitsMs) => {
  const limiter = createLimiter({ kind, limit, windowMs });
  for (const [atMs, count] of Object.entries(accepted)) expect(takeMany(limiter, Number(atMs), 20)).toBe(count);
  for (const [atMs, waitMs] of Object.entries(waitsMs)) expect(limiter(Number(atMs))).toBe(waitMs);
});

test.each(limiterKinds)(
  'a limiter of the kind %s accepts a request after the wait that it gives, and none before',
  (kind) => {
    const gaps = fc.array(fc.integer({ min: 0, max: 300 }), { minLength: 1, maxLength: 60 });
    const property = fc.property(gaps, fc.integer({ min: 1, max: 7 }), (gapsMs, limit) => {
      const taken: number[] = [];
      let nowMs = 0;
      let waitMs = 0;
      const limiter = createLimiter({ kind, limit, windowMs });
      for (const gapMs of gapsMs) {
        nowMs += gapMs;
        waitMs = limiter(nowMs);
        if (waitMs === 0) taken.push(nowMs);
      }
      if (waitMs > 0) {
        const again = createLimiter({ kind, limit, windowMs });
        expect(taken.map(again).filter((ms) => ms > 0)).toEqual([]);
        expect(again(nowMs + waitMs - 1)).toBeGreaterThan(0);
        expect(again(nowMs + waitMs)).toBe(0);
      }
      if (kind === 'sliding') expect(maxInAnyWindow(taken, windowMs)).toBeLessThanOrEqual(limit);
    });
    fc.assert(property, { numRuns: 300 });
  },
);

test('a shared limit is spent by others at about their share, and in the same way for the same seed', () => {
  const left = [1, 1, 2].map((seed) => {
    const options = { kind: 'sliding', limit: 1_000, windowMs } as const;
    return takeMany(shareLimiter(options, 0.3, createRandom(seed), 0), 20_000, 1_000);
  });
  expect(left[0]).toBe(left[1]);
  expect(left[0]).not.toBe(left[2]);
  expect(left[0]).toBeGreaterThan(640);
  expect(left[0]).toBeLessThan(760);
});

test('the most requests in any rolling window agree with a count over every window that begins with a request', () => {
  const property = fc.property(fc.array(fc.integer({ min: 0, max: 50 }), { maxLength: 20 }), (instants) => {
    const counts = instants.map((from) => instants.filter((at) => at >= from && at < from + 10).length);
    expect(maxInAnyWindow(instants, 10)).toBe(Math.max(0, ...counts));
  });
  fc.assert(property);
});
