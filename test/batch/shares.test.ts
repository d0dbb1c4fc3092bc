import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Claim, divide } from '../../src/batch/shares.js';

const fresh = (needed: number): Claim => ({ needed, share: 0, granted: 0 });
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

test('shares are even, and no part gets more than it can use', () => {
  expect(divide([250, 250, 250].map(fresh), [], 50)).toEqual([17, 17, 16]);
  expect(divide([250, 3, 250].map(fresh), [], 50)).toEqual([24, 3, 23]);
  expect(divide([1, 1].map(fresh), [], 50)).toEqual([1, 1]);
  expect(divide([9, 9].map(fresh), [9], 2)).toEqual([1, 1]);
  expect(divide([], [], 50)).toEqual([]);
});

test('shares add up to maxOpen, or to what the parts can use if that is less', () => {
  const wanted = fc.array(fc.integer({ min: 0, max: 500 }), { maxLength: 60 });
  fc.assert(
    fc.property(wanted, fc.integer({ min: 1, max: 500 }), (needs, maxOpen) => {
      const shares = divide(needs.map(fresh), [], maxOpen);
      expect(sum(shares)).toBe(Math.min(maxOpen, sum(needs)));
      expect(shares.every((share, index) => share <= (needs[index] ?? 0))).toBe(true);
    }),
  );
});

test('the share that a long tail leaves goes to the other parts', () => {
  const tail = { needed: 2, share: 25, granted: 2 };
  expect(divide([tail, { needed: 500, share: 25, granted: 25 }], [], 50)).toEqual([25, 48]);
});
