import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { BatchState, PartRecord } from '../../src/batch/batch-state.js';
import { newConversation } from '../../src/batch/conversation.js';
import { addCounts } from '../../src/batch/outcome.js';
import { divide, renewOrders } from '../../src/batch/shares.js';

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

describe('a total', () => {
  test('is divided evenly, and the first parts get the remainder', () => {
    expect(divide([250, 250, 250], 50)).toEqual([17, 17, 16]);
  });

  test('goes to other parts as far as one needs less', () => {
    expect(divide([250, 3, 250], 50)).toEqual([24, 3, 23]);
  });

  test('gives each part what it needs if there is enough', () => {
    expect(divide([1, 1], 50)).toEqual([1, 1]);
  });

  test('goes to the first parts if there are more parts than that', () => {
    expect(divide([9, 9, 9], 2)).toEqual([1, 1, 0]);
  });

  test('is divided among no parts', () => {
    expect(divide([], 50)).toEqual([]);
  });

  test('is used up, or as much of it as the parts need', () => {
    const needs = fc.array(fc.integer({ min: 0, max: 500 }), { maxLength: 60 });
    fc.assert(
      fc.property(needs, fc.integer({ min: 1, max: 500 }), (needed, total) => {
        const shares = divide(needed, total);
        expect(sum(shares)).toBe(Math.min(total, sum(needed)));
        expect(shares.every((share, index) => share <= (needed[index] ?? 0))).toBe(true);
      }),
    );
  });
});

describe('the shares of parts', () => {
  /** A part of which some items remain. It follows its order, and by default has as many open as it may. */
  function partOf(remaining: number, share = 0, granted = share): PartRecord {
    const { order, ...conversation } = newConversation();
    return {
      ...{ first: 0, size: remaining, hash: 'h', open: 0, counts: addCounts([]), restarts: 0 },
      conversation: { ...conversation, order: { ...order, share }, granted },
    };
  }

  function renewedShares(parts: PartRecord[], { planned = [] as number[], ...change }: RenewalChange = {}): number[] {
    const state: BatchState = {
      ...{ batchId: 'b', maxOpen: 50, template: {}, sealed: true, startedAtMs: 0, cancelled: false },
      ...{ forgivenFailures: 0, total: 0, parts, kept: [], updates: [], ...change },
    };
    renewOrders(
      state,
      planned.map((size) => Array.from({ length: size })),
      1_000,
    );
    return parts.map(({ conversation }) => conversation.order.share);
  }
  type RenewalChange = Partial<Pick<BatchState, 'hold' | 'canary' | 'maxOpen'>> & { planned?: number[] };

  test('leave room for parts that do not exist yet', () => {
    expect(renewedShares([partOf(9), partOf(9)], { planned: [9], maxOpen: 3 })).toEqual([1, 1]);
  });

  test('go to other parts if a part has only a few items left', () => {
    expect(renewedShares([partOf(2, 25), partOf(500, 25)])).toEqual([25, 48]);
  });

  test('grow only by what other parts are known to have given up', () => {
    expect(renewedShares([partOf(500, 30), partOf(500), partOf(500)])).toEqual([17, 17, 3]);
  });

  test('do not grow by what a part has open from a larger share', () => {
    expect(renewedShares([partOf(500, 25, 40), partOf(500)])).toEqual([25, 10]);
  });

  test('are none while the batch is held', () => {
    const hold = { name: 'canary', reason: '', at: '' } as const;
    expect(renewedShares([partOf(500, 25), partOf(500, 25)], { hold })).toEqual([0, 0]);
  });

  test('never exceed maxOpen together with what was granted before', () => {
    const part = fc.tuple(fc.nat(60), fc.nat(20), fc.nat(20));
    fc.assert(
      fc.property(fc.array(part, { maxLength: 8 }), fc.integer({ min: 1, max: 80 }), (list, maxOpen) => {
        const parts = list.map(([remaining, share, extra]) => partOf(remaining, share, share + extra));
        const mayHaveOpen = () => sum(parts.map((each) => Math.min(each.size, each.conversation.granted)));
        const before = mayHaveOpen();
        renewedShares(parts, { maxOpen });
        expect(mayHaveOpen()).toBeLessThanOrEqual(Math.max(before, maxOpen));
      }),
    );
  });
});
