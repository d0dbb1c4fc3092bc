import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Claim, divide } from '../../src/batch/shares.js';

/** A part that has not been granted anything. */
const fresh = (needed: number): Claim => ({ needed, share: 0, granted: 0 });
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

describe('the shares of parts', () => {
  test('are even, and the first parts get the remainder', () => {
    expect(divide([250, 250, 250].map(fresh), [], 50)).toEqual([17, 17, 16]);
  });

  test('are no larger than a part can use, so that the others get the rest', () => {
    expect(divide([250, 3, 250].map(fresh), [], 50)).toEqual([24, 3, 23]);
  });

  test('are what each part can use if there is enough', () => {
    expect(divide([1, 1].map(fresh), [], 50)).toEqual([1, 1]);
  });

  test('leave room for parts that do not exist yet', () => {
    expect(divide([9, 9].map(fresh), [9], 3)).toEqual([1, 1]);
  });

  test('go to the first parts if there are fewer than parts', () => {
    expect(divide([9, 9].map(fresh), [9], 2)).toEqual([1, 1]);
  });

  test('are none if there are no parts', () => {
    expect(divide([], [], 50)).toEqual([]);
  });

  test('go to other parts if a part has only a few items left', () => {
    const tail = { needed: 2, share: 25, granted: 2 };
    expect(divide([tail, { needed: 500, share: 25, granted: 25 }], [], 50)).toEqual([25, 48]);
  });

  test('grow only by what other parts are known to have given up', () => {
    const first = { needed: 500, share: 30, granted: 30 };
    expect(divide([first, fresh(500), fresh(500)], [], 50)).toEqual([17, 17, 3]);
  });

  test('add up to maxOpen, or to what the parts can use if that is less', () => {
    const needs = fc.array(fc.integer({ min: 0, max: 500 }), { maxLength: 60 });
    fc.assert(
      fc.property(needs, fc.integer({ min: 1, max: 500 }), (needed, maxOpen) => {
        const shares = divide(needed.map(fresh), [], maxOpen);
        expect(sum(shares)).toBe(Math.min(maxOpen, sum(needed)));
        expect(shares.every((share, index) => share <= (needed[index] ?? 0))).toBe(true);
      }),
    );
  });
});
