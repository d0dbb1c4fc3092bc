import { expect, test } from 'vitest';
import { assumeFull, Budget, carryState, newState, reopen, restoreState } from '../../src/budget/index.js';
import { acquire, MARGIN_MS, newBudget, spend, T0, WINDOW_MS } from './support.js';

test('a restarted budget wakes a follow-up that has a slot at once, whatever wait it was told', () => {
  const budget = newBudget({ limit: 1 });
  spend(budget, T0, 'first');
  expect(acquire(budget, T0 + 1, 'waiting').kind).toBe('wait');
  const state = restoreState(carryState(budget.state));
  // Its wait ended while the budget was stopped. It asked then, and was told to come back in a minute.
  const restartedAtMs = T0 + WINDOW_MS + MARGIN_MS + 60_000;
  reopen(state, restartedAtMs);
  const restored = new Budget(state);
  expect(restored.tick(restartedAtMs).wake).toEqual(['waiting']);
  expect(acquire(restored, restartedAtMs + 1, 'waiting').kind).toBe('granted');
});

test('sends from before a stop still count after the restart', () => {
  const budget = newBudget({ limit: 2 });
  spend(budget, T0, 'one', 'two');
  const state = restoreState(carryState(budget.state));
  reopen(state, T0 + 1_000);
  const restored = new Budget(state);
  const endMs = T0 + WINDOW_MS + MARGIN_MS;
  expect(acquire(restored, endMs - 5_000, 'three')).toMatchObject({ kind: 'wait', reason: 'slot' });
  expect(acquire(restored, endMs - 1, 'three')).toMatchObject({ kind: 'granted', grantedAtMs: endMs });
});

test('a budget whose state is lost holds every slot until sends in flight have arrived and a window has passed', () => {
  for (const [inFlightUntilMs, heldFromMs] of [
    [undefined, T0],
    [T0 - 5_000, T0],
    [T0 + 180_000, T0 + 180_000],
  ] as const) {
    const settings = { limit: 2, windowMs: WINDOW_MS, reserve: 0, marginMs: MARGIN_MS };
    const budget = new Budget(newState('p', settings));
    assumeFull(budget.state, T0, inFlightUntilMs);
    expect(budget.status(T0).used).toBe(2);
    const began = { firstRunStartedAtMs: T0 + 1 };
    const freeAtMs = heldFromMs + WINDOW_MS + MARGIN_MS;
    expect(acquire(budget, freeAtMs - 5_000, 'new', began)).toMatchObject({ kind: 'wait', reason: 'slot' });
    expect(acquire(budget, freeAtMs - 1, 'new', began)).toMatchObject({ kind: 'granted', grantedAtMs: freeAtMs });
  }
});

test('the message of a follow-up that began before the state was lost may have been sent', () => {
  const budget = newBudget();
  assumeFull(budget.state, T0);
  expect(acquire(budget, T0 + 1, 'old', { firstRunStartedAtMs: T0 })).toMatchObject({ kind: 'alreadyGranted' });
  expect(acquire(budget, T0 + 1, 'new', { firstRunStartedAtMs: T0 + 1 })).toMatchObject({ kind: 'wait' });
});

test('a budget whose clock jumped far ahead stands still when restored; with its slots assumed used, it goes on a window later', () => {
  const budget = newBudget({ limit: 1 });
  const farAheadMs = T0 + 10 * 365 * 86_400_000;
  spend(budget, farAheadMs, 'before');
  const restoredState = restoreState(carryState(budget.state));
  reopen(restoredState, T0);
  const began = { firstRunStartedAtMs: T0 + 1 };
  const yearLaterMs = T0 + 365 * 86_400_000;
  expect(acquire(new Budget(restoredState), yearLaterMs, 'new', began)).toMatchObject({ kind: 'stale' });
  const cured = new Budget(newState('p', budget.state.settings));
  assumeFull(cured.state, T0);
  expect(acquire(cured, T0 + 1, 'new', began)).toMatchObject({ kind: 'wait', reason: 'slot' });
  expect(acquire(cured, T0 + WINDOW_MS + MARGIN_MS, 'new', began).kind).toBe('granted');
});
