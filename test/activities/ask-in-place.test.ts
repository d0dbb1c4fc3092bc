import { expect, test } from 'vitest';
import { waitsForSends } from '../../src/activities/ask-again.js';
import { acquire, MARGIN_MS, newBudget, settle, spend, T0, WINDOW_MS } from '../budget/support.js';

test('a follow-up asks again at once only if a slot is free and unsettled sends are in the way', () => {
  const budget = newBudget({ limit: 12 });
  for (let index = 0; index < 10; index++) acquire(budget, T0, `w${index}`);
  const answer = acquire(budget, T0, 'next');
  expect(answer).toMatchObject({ kind: 'wait', reason: 'slot' });
  expect(waitsForSends({ answer, proven: true })).toBe(true);
  expect(waitsForSends({ answer, proven: false })).toBe(false);
  settle(budget, T0 + 200, 'w0');
  const again = acquire(budget, T0 + 250, 'next');
  expect(again).toMatchObject({ kind: 'granted' });
  expect(waitsForSends({ answer: again, proven: true })).toBe(false);
});

test('a follow-up that waits for a slot to end, or for its job, returns to its workflow', () => {
  const budget = newBudget({ limit: 1 });
  spend(budget, T0, 'x');
  const late = acquire(budget, T0 + WINDOW_MS + MARGIN_MS - 2_500, 'a');
  expect(late).toMatchObject({ kind: 'wait', reason: 'slot' });
  expect(waitsForSends({ answer: late, proven: true })).toBe(false);
  const held = acquire(newBudget(), T0, 'b', { hold: true });
  expect(waitsForSends({ answer: held, proven: true })).toBe(false);
});
