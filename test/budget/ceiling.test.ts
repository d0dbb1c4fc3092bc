import { expect, test } from 'vitest';
import { GRANT_AHEAD_MS } from '../../src/budget/limits.js';
import { Budget, carryState, limitChangeIssue, restoreState } from '../../src/budget/index.js';
import { acquire, finish, newBudget, settle, T0, WINDOW_MS } from './support.js';

const ceiling = { limit: 3, windowMs: WINDOW_MS };

/** How many of `count` follow-ups that ask one second apart are granted. */
function grantsOf(budget: Budget, fromMs: number, count: number, more = {}): number {
  return Array.from({ length: count }, (_, index) => {
    const nowMs = fromMs + index * 1_000;
    const name = `${fromMs}-${index}`;
    const { kind } = acquire(budget, nowMs, name, { ceiling, ...more });
    if (kind === 'granted') settle(budget, nowMs, name);
    else finish(budget, nowMs, name);
    return kind;
  }).filter((kind) => kind === 'granted').length;
}

test('a high limit, raised or initial, grants no more than the ceiling of the worker that asks', () => {
  const raised = newBudget({ limit: 1 });
  raised.setLimit(T0, { limit: 10_000 });
  for (const budget of [raised, newBudget({ limit: 10_000 })]) {
    expect(grantsOf(budget, T0, 20)).toBe(3);
    expect(budget.status(T0 + 20_000)).toMatchObject({ limit: 3, used: 3 });
    expect(budget.facts(T0 + 20_000).limit).toBe(3);
    expect(acquire(budget, T0 + 20_000, 'older worker', { ceiling: { limit: 2, windowMs: WINDOW_MS } }).kind).toBe(
      'wait',
    );
  }
});

test('a budget with a shortened window grants no more than the ceiling in the ceiling’s window, to the millisecond', () => {
  const budget = newBudget({ limit: 2, windowMs: 1_000, marginMs: 0 });
  expect(grantsOf(budget, T0, 20)).toBe(3);
  expect(budget.status(T0 + 20_000).used).toBe(2);
  const endMs = T0 + WINDOW_MS;
  expect(acquire(budget, endMs - GRANT_AHEAD_MS - 1, 'late', { ceiling })).toMatchObject({
    kind: 'wait',
    reason: 'slot',
    position: 1,
    etaMs: GRANT_AHEAD_MS + 1,
  });
  expect(acquire(budget, endMs - GRANT_AHEAD_MS, 'late', { ceiling })).toMatchObject({ grantedAtMs: endMs });
});

test('a shorter window is used in full up to the ceiling, and nobody is woken before both windows have a slot', () => {
  const budget = newBudget({ limit: 1, windowMs: 10_000, marginMs: 0 });
  expect(acquire(budget, T0, 'a', { ceiling }).kind).toBe('granted');
  settle(budget, T0, 'a');
  expect(acquire(budget, T0, 'b', { ceiling })).toMatchObject({ kind: 'wait', etaMs: 10_000 });
  for (const [name, afterMs] of [
    ['b', 10_000],
    ['c', 20_000],
  ] as const) {
    expect(acquire(budget, T0 + afterMs, name, { ceiling }).kind).toBe('granted');
    settle(budget, T0 + afterMs, name);
  }
  expect(acquire(budget, T0 + 21_000, 'd', { ceiling })).toMatchObject({ kind: 'wait', etaMs: WINDOW_MS - 21_000 });
  // The budget's own window has a slot, the ceiling's has none.
  const woken = [30_000, 60_000, 600_000].flatMap((afterMs) => budget.tick(T0 + afterMs).wake);
  expect(woken).toEqual([]);
  expect(budget.tick(T0 + WINDOW_MS - GRANT_AHEAD_MS).wake).toEqual(['d']);
});

test('a ceiling of 250 an hour holds although only the last 100 sends are kept in full, and in the next run', () => {
  const high = { limit: 250, windowMs: WINDOW_MS };
  const budget = newBudget({ limit: 10, windowMs: 1_000, marginMs: 0 });
  expect(grantsOf(budget, T0, 300, { ceiling: high })).toBe(250);
  const next = new Budget(restoreState(JSON.parse(JSON.stringify(carryState(budget.state)))));
  expect(next.state).toEqual(budget.state);
  const after = T0 + 300_000;
  expect(next.status(after).nextFreeSlotAt).toBe(new Date(T0 + WINDOW_MS).toISOString());
});

test('a limit above the ceiling is refused; the ceiling is that of the latest ask, or of the settings before any ask', () => {
  const issue = (budget: Budget, limit: number) => limitChangeIssue(budget.state, { limit });
  const budget = newBudget({ limit: 3, maxLimit: 5 });
  expect(issue(budget, 6)).toMatchObject({ field: 'limit', message: expect.stringContaining('at most 5') as string });
  expect(issue(budget, 5)).toBeUndefined();
  acquire(budget, T0, 'a', { ceiling: { limit: 4, windowMs: WINDOW_MS } });
  expect(issue(budget, 5)).toMatchObject({ field: 'limit', message: expect.stringContaining('at most 4') as string });
  expect(issue(newBudget({ limit: 3 }), 10_000)).toBeUndefined();
  expect(limitChangeIssue(budget.state, { reserve: 3 })).toMatchObject({ field: 'reserve' });
});
