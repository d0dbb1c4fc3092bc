import { expect, test } from 'vitest';
import { askAgainAfterMs } from '../../src/activities/ask-again.js';

test('an ask whose answer was lost comes again after a quarter of a second', () => {
  expect([0, 0.5, 1].map((random) => askAgainAfterMs(0, random))).toEqual([250, 250, 250]);
});

test('an ask that is turned away comes again soon at first, then after up to 2 s, and never sooner than 250 ms', () => {
  expect([1, 2, 3, 4, 100].map((times) => askAgainAfterMs(times, 1))).toEqual([500, 1_000, 2_000, 2_000, 2_000]);
  expect([1, 2, 3, 4, 100].map((times) => askAgainAfterMs(times, 0))).toEqual([250, 250, 250, 250, 250]);
});
