import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { firstStartAfter, paceOf, renewOrders, shareOut, type Claim } from '../../src/batch/orders.js';

const claim = (remaining: number): Claim => ({ order: { number: 1, share: 0, ...paceOf(1) }, held: 0, remaining });
const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);

describe('shares', () => {
  test('are even, and no part gets more than it can use', () => {
    expect(shareOut([250, 250, 250], 50)).toEqual([17, 17, 16]);
    expect(shareOut([250, 3, 250], 50)).toEqual([24, 3, 23]);
    expect(shareOut([1, 1], 50)).toEqual([1, 1]);
    expect(shareOut([9, 9, 9], 2)).toEqual([1, 1, 0]);
    expect(shareOut([], 50)).toEqual([]);
  });

  test('add up to maxOpen, or to what the parts can use if that is less', () => {
    const wanted = fc.array(fc.integer({ min: 0, max: 250 }), { maxLength: 60 });
    fc.assert(
      fc.property(wanted, fc.integer({ min: 1, max: 500 }), (wants, maxOpen) => {
        const shares = shareOut(wants, maxOpen);
        expect(sum(shares)).toBe(Math.min(maxOpen, sum(wants)));
        expect(shares.every((share, index) => share <= (wants[index] ?? 0))).toBe(true);
      }),
    );
  });
});

test('all parts together start at most 5 follow-ups a second', () => {
  for (let parts = 1; parts <= 200; parts++) {
    const { starts, everyMs } = paceOf(parts);
    expect((parts * starts * 1_000) / everyMs).toBeLessThanOrEqual(5);
  }
  const { starts, everyMs } = paceOf(40);
  const firstStarts = Array.from({ length: 40 }, (_, part) => firstStartAfter(part, { starts, everyMs }));
  expect(new Set(firstStarts).size).toBe(40);
});

test('no more than maxOpen follow-ups are ever open, however orders and reports cross', () => {
  // A part opens up to the share it knows; orders reach it late, and so do its reports.
  type Event = { kind: 'join'; size: number } | { kind: 'deliver' | 'open' | 'end' | 'report'; part: number };
  const part = fc.nat(7);
  const event: fc.Arbitrary<Event> = fc.oneof(
    fc.record({ kind: fc.constant('join' as const), size: fc.integer({ min: 1, max: 30 }) }),
    fc.record({ kind: fc.constantFrom('deliver' as const, 'open' as const, 'end' as const, 'report' as const), part }),
  );
  fc.assert(
    fc.property(fc.array(event, { maxLength: 300 }), fc.integer({ min: 1, max: 12 }), (events, maxOpen) => {
      const claims: Claim[] = [];
      const parts: { left: number; open: number; share: number; known: number }[] = [];
      for (const [nowMs, next] of events.entries()) {
        if (next.kind === 'join') {
          claims.push(claim(next.size));
          parts.push({ left: next.size, open: 0, share: 0, known: 0 });
          renewOrders(claims, [], maxOpen, nowMs);
          continue;
        }
        const [ordered, real] = [claims[next.part], parts[next.part]];
        if (!ordered || !real) continue;
        if (next.kind === 'deliver') Object.assign(real, { share: ordered.order.share, known: ordered.order.number });
        if (next.kind === 'open') real.open = Math.min(real.left, Math.max(real.open, real.share));
        if (next.kind === 'end' && real.open > 0) {
          real.open -= 1;
          real.left -= 1;
        }
        if (next.kind === 'report') {
          ordered.remaining = real.left;
          if (real.known >= ordered.order.number) ordered.held = Math.max(ordered.order.share, real.open);
          renewOrders(claims, [], maxOpen, nowMs);
        }
        expect(sum(parts.map(({ open }) => open))).toBeLessThanOrEqual(maxOpen);
      }
    }),
    { numRuns: 300 },
  );
});
