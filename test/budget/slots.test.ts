import { describe, expect, test } from 'vitest';
import { GRANT_AHEAD_MS } from '../../src/budget/limits.js';
import type { SendOutcome } from '../../src/contract/index.js';
import { acquire, DRAIN_MS, finish, LEASE_MS, MARGIN_MS, newBudget, settle, spend, T0, WINDOW_MS } from './support.js';

/** The time after `T0` at which the only slot of a budget comes free, after a send that ends like this. */
function slotFreeAfterMs(end: (budget: ReturnType<typeof newBudget>) => void): number {
  const budget = newBudget({ limit: 1 });
  acquire(budget, T0, 'a');
  end(budget);
  const { nextFreeSlotAt } = budget.status(T0);
  const endMs = nextFreeSlotAt === undefined ? T0 : Date.parse(nextFreeSlotAt);
  if (endMs > T0) {
    const aheadMs = endMs - GRANT_AHEAD_MS;
    expect(acquire(budget, aheadMs - 1, 'b')).toMatchObject({ kind: 'wait', reason: 'slot' });
    expect(acquire(budget, aheadMs, 'b')).toMatchObject({
      kind: 'granted',
      grantedAtMs: endMs,
      sendAfterMs: GRANT_AHEAD_MS,
      ledgerSinceMs: 0,
    });
  } else {
    expect(acquire(budget, T0 + 1, 'b')).toMatchObject({ kind: 'granted', grantedAtMs: T0 + 1, ledgerSinceMs: 0 });
  }
  return endMs - T0;
}

describe('a slot is held', () => {
  test.each<SendOutcome>(['sent', 'rejected', 'limited', 'unauthorized'])(
    'until the answer + window + margin after %s, to the millisecond',
    (outcome) => {
      const free = slotFreeAfterMs((budget) => {
        settle(budget, T0 + 500, 'a', { outcome });
        finish(budget, T0 + 600, 'a');
        // A pause would hide when the slot ends.
        delete budget.state.pause;
      });
      expect(free).toBe(500 + WINDOW_MS + MARGIN_MS);
    },
  );

  test('from the end of the send, which the settle may report later, but never from before its grant', () => {
    const after = (agoMs: number) => slotFreeAfterMs((budget) => settle(budget, T0 + 4_000, 'a', { agoMs }));
    expect(after(3_500)).toBe(500 + WINDOW_MS + MARGIN_MS);
    expect(after(60_000)).toBe(WINDOW_MS + MARGIN_MS);
  });

  test('until grant + lease + drain + window + margin after unknown', () => {
    const free = slotFreeAfterMs((budget) => settle(budget, T0 + 500, 'a', { outcome: 'unknown', agoMs: 400 }));
    expect(free).toBe(LEASE_MS + DRAIN_MS + WINDOW_MS + MARGIN_MS);
  });

  test('just as long if nobody ever settles it', () => {
    expect(slotFreeAfterMs(() => undefined)).toBe(LEASE_MS + DRAIN_MS + WINDOW_MS + MARGIN_MS);
  });

  test('no longer than that if the settle comes very late', () => {
    const budget = newBudget({ limit: 1 });
    acquire(budget, T0, 'a');
    settle(budget, T0 + WINDOW_MS, 'a');
    const latest = T0 + LEASE_MS + DRAIN_MS + WINDOW_MS + MARGIN_MS;
    expect(acquire(budget, latest - GRANT_AHEAD_MS - 1, 'b')).toMatchObject({ kind: 'wait' });
    expect(acquire(budget, latest - 1, 'b')).toMatchObject({ kind: 'granted', grantedAtMs: latest, sendAfterMs: 1 });
  });

  test('not at all after notSent', () => {
    expect(slotFreeAfterMs((budget) => settle(budget, T0, 'a', { outcome: 'notSent' }))).toBe(0);
  });

  test('by a follow-up that finishes or withdraws without settling', () => {
    for (const end of [{ kind: 'finish' }, { kind: 'finish', outcome: 'unknown' }, { kind: 'withdraw' }] as const) {
      const budget = newBudget({ limit: 1 });
      acquire(budget, T0, 'a');
      budget.hear(T0, [{ ...end, workflowId: 'a', jobId: 'job-a', sendNumber: 1 }]);
      expect(acquire(budget, T0 + WINDOW_MS + MARGIN_MS, 'b')).toMatchObject({ kind: 'wait' });
    }
  });

  test('even if another token says notSent', () => {
    const budget = newBudget({ limit: 1 });
    acquire(budget, T0, 'a');
    settle(budget, T0, 'a', { outcome: 'notSent', token: 'stolen' });
    expect(acquire(budget, T0 + 1, 'b')).toMatchObject({ kind: 'wait' });
  });

  test('as the first settle says: a second one changes nothing', () => {
    const budget = newBudget({ limit: 1 });
    acquire(budget, T0, 'a');
    settle(budget, T0, 'a', { outcome: 'sent' });
    settle(budget, T0, 'a', { outcome: 'notSent' });
    expect(acquire(budget, T0 + 1, 'b')).toMatchObject({ kind: 'wait' });
  });
});

describe('the budget', () => {
  test('may be spent all at once', () => {
    const budget = newBudget({ limit: 3 });
    spend(budget, T0, 'a', 'b', 'c');
    expect(acquire(budget, T0, 'd')).toMatchObject({ kind: 'wait', reason: 'slot', position: 1 });
  });

  test('stands still while the clock goes back', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'a');
    const end = T0 + WINDOW_MS + MARGIN_MS;
    const nowMs = end - 10_000;
    expect(acquire(budget, nowMs, 'b')).toMatchObject({ kind: 'wait' });
    expect(acquire(budget, T0, 'b', { attemptScheduledAtMs: nowMs })).toMatchObject({ kind: 'wait', etaMs: 10_000 });
    expect(acquire(budget, end, 'b')).toMatchObject({ kind: 'granted' });
  });

  test('does not take the time from an ask', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'a');
    const hoursAhead = T0 + 5 * WINDOW_MS;
    expect(acquire(budget, T0 + 1_000, 'b', { attemptScheduledAtMs: hoursAhead })).toMatchObject({ kind: 'wait' });
    expect(budget.state.lastTimeMs).toBe(T0 + 1_000);
  });

  test('allows at most 10 unsettled sends at once', () => {
    const budget = newBudget({ limit: 100 });
    for (let index = 0; index < 10; index++) {
      expect(acquire(budget, T0, `w${index}`)).toMatchObject({ kind: 'granted' });
    }
    expect(acquire(budget, T0, 'late')).toMatchObject({ kind: 'wait', reason: 'slot', waitMs: 1_000 });
    // It asks again within a second by itself, so it is not woken.
    expect(settle(budget, T0 + 300, 'w0').wake).toEqual([]);
    expect(acquire(budget, T0 + 301, 'late')).toMatchObject({ kind: 'granted' });
  });

  test.each([
    { everyMs: 50, furtherMs: 1_000, what: 'a second' },
    { everyMs: 2_000, furtherMs: 18_000, what: 'as long as the latest ten took' },
    { everyMs: 7_000, furtherMs: 1_000, what: 'a second again if the latest ten came too far apart to tell' },
  ])('behind ten sends that started every $everyMs ms, each further ten wait $what', ({ everyMs, furtherMs }) => {
    const budget = newBudget({ limit: 100 });
    for (let index = 0; index < 10; index++) acquire(budget, T0 + index * everyMs, `w${index}`, { leaseMs: 300_000 });
    const waits = Array.from({ length: 21 }, (_, index) => acquire(budget, T0 + 9 * everyMs, `late-${index}`));
    expect([waits[0], waits[9], waits[10], waits[20]]).toMatchObject([
      { kind: 'wait', waitMs: 1_000 },
      { kind: 'wait', waitMs: 1_000 },
      { kind: 'wait', waitMs: 1_000 + furtherMs },
      { kind: 'wait', waitMs: 1_000 + 2 * furtherMs },
    ]);
  });

  test('keeps the reserve free of the batch lane', () => {
    const budget = newBudget({ limit: 3, reserve: 1 });
    spend(budget, T0, 'a', 'b');
    expect(acquire(budget, T0, 'night', { lane: 'batch' })).toMatchObject({ kind: 'wait', reason: 'slot' });
    expect(acquire(budget, T0, 'day')).toMatchObject({ kind: 'granted' });
  });

  test('never grants with a limit of 0, and gives no expected time', () => {
    const budget = newBudget({ limit: 0 });
    expect(acquire(budget, T0, 'a')).toMatchObject({ kind: 'wait', reason: 'slot', etaMs: null });
  });
});
