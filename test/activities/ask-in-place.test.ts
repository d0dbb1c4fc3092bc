import { expect, test } from 'vitest';
import { asksInPlace } from '../../src/activities/ask-again.js';
import { GRANT_AHEAD_MS } from '../../src/budget/limits.js';
import { acquire, MARGIN_MS, newBudget, settle, spend, T0, WINDOW_MS } from '../budget/support.js';

test('a follow-up asks again from its activity only if a slot is free and unsettled sends are in the way', () => {
  const budget = newBudget({ limit: 12 });
  for (let index = 0; index < 10; index++) acquire(budget, T0, `w${index}`);
  const answer = acquire(budget, T0, 'next');
  expect(answer).toMatchObject({ kind: 'wait', reason: 'slot' });
  expect(asksInPlace({ answer, proven: true })).toEqual({ afterMs: 0, forMs: 3_000 });
  expect(asksInPlace({ answer, proven: false })).toBeUndefined();
  settle(budget, T0 + 200, 'w0');
  const again = acquire(budget, T0 + 250, 'next');
  expect(again).toMatchObject({ kind: 'granted' });
  expect(asksInPlace({ answer: again, proven: true })).toBeUndefined();
});

test('a follow-up that waits for a slot to end, or for its job, returns to its workflow', () => {
  const budget = newBudget({ limit: 1 });
  spend(budget, T0, 'x');
  const late = acquire(budget, T0 + WINDOW_MS + MARGIN_MS - GRANT_AHEAD_MS - 500, 'a');
  expect(late).toMatchObject({ kind: 'wait', reason: 'slot' });
  expect(asksInPlace({ answer: late, proven: true })).toBeUndefined();
  const held = acquire(newBudget(), T0, 'b', { hold: true });
  expect(asksInPlace({ answer: held, proven: true })).toBeUndefined();
});

test('behind sends that were granted ahead, a follow-up asks again once they have started, and nobody wakes it', () => {
  const budget = newBudget({ limit: 11 });
  for (let index = 0; index < 10; index++) spend(budget, T0 + index * 100, `x${index}`);
  spend(budget, T0 + 1_000, 'x10');
  const endsAtMs = T0 + WINDOW_MS + MARGIN_MS;
  const askedAtMs = endsAtMs - 900;
  for (let index = 0; index < 10; index++) expect(acquire(budget, askedAtMs, `a${index}`).kind).toBe('granted');
  const answer = acquire(budget, askedAtMs, 'next');
  expect(answer).toMatchObject({ kind: 'wait', reason: 'slot', waitMs: 900 + 1_000 });
  expect(asksInPlace({ answer, proven: true })).toEqual({ afterMs: 900, forMs: 3_900 });
  expect(budget.tick(askedAtMs + 100).wake).toEqual([]);
  expect(budget.status(askedAtMs + 100).waiting).toMatchObject([{ jobId: 'job-next' }]);
  expect(budget.status(askedAtMs + 100).waiting[0]).not.toHaveProperty('calledAt');
  settle(budget, endsAtMs + 200, 'a0');
  expect(acquire(budget, endsAtMs + 200, 'next')).toMatchObject({ kind: 'granted' });
});

test('a follow-up with ten ahead of it, or behind slow sends, returns to its workflow', () => {
  const budget = newBudget({ limit: 100 });
  for (let index = 0; index < 10; index++) acquire(budget, T0, `a${index}`);
  for (let index = 0; index < 10; index++) {
    const answer = acquire(budget, T0, `b${index}`);
    expect(asksInPlace({ answer, proven: true })?.afterMs).toBe(0);
  }
  const answer = acquire(budget, T0, 'later');
  expect(answer).toMatchObject({ kind: 'wait', reason: 'slot', waitMs: 2_000 });
  expect(asksInPlace({ answer, proven: true })).toBeUndefined();
  for (let index = 0; index < 10; index++) settle(budget, T0 + GRANT_AHEAD_MS + 500, `a${index}`);
  for (let index = 0; index < 10; index++)
    expect(acquire(budget, T0 + GRANT_AHEAD_MS + 500, `b${index}`).kind).toBe('granted');
  const behindSlow = acquire(budget, T0 + GRANT_AHEAD_MS + 500, 'later');
  expect(asksInPlace({ answer: behindSlow, proven: true })).toBeUndefined();
});
