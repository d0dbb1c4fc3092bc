import { describe, expect, test } from 'vitest';
import { describeBudget } from '../../src/budget/details.js';
import { carryState, restoreState } from '../../src/budget/index.js';
import type { BudgetWord } from '../../src/contract/protocol.js';
import { acquire, MARGIN_MS, newBudget, settle, spend, T0, WINDOW_MS } from './support.js';

const MINUTE_MS = 60_000;
const refused: BudgetWord = { kind: 'keyRead', isRefused: true };
const taken: BudgetWord = { kind: 'keyRead', isRefused: false };

describe('the pause after a read whose API key is refused', () => {
  test('starts with the first refusal, and shows in the status, the details and the facts', () => {
    const budget = newBudget();
    budget.hear(T0, [refused]);
    budget.hear(T0 + MINUTE_MS, [refused]);
    const status = budget.status(T0 + MINUTE_MS);
    expect(status.paused).toEqual({ reasons: ['credentials'], since: new Date(T0).toISOString() });
    expect(describeBudget(status, T0 + MINUTE_MS)).toMatch(
      /paused: the service refuses the API key, or there is none since .* until the key is accepted again/,
    );
    expect(budget.facts(T0 + MINUTE_MS).servicePause).toBe('credentials');
  });

  test('stops invitations until a read succeeds, which invites at once', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'sent');
    acquire(budget, T0 + 1, 'waiting');
    const slotFreeAtMs = T0 + WINDOW_MS + MARGIN_MS;
    expect(budget.hear(slotFreeAtMs - 5_000, [refused]).wake).toEqual([]);
    expect(budget.tick(slotFreeAtMs - 1_000).wake).toEqual([]);
    expect(budget.hear(slotFreeAtMs - 900, [taken]).wake).toEqual(['waiting']);
    expect(budget.status(slotFreeAtMs - 900).paused).toBeUndefined();
    expect(budget.facts(slotFreeAtMs - 900).servicePause).toBeUndefined();
  });

  test('ends with the next ask, because a follow-up reads its job before it asks', () => {
    const budget = newBudget();
    budget.hear(T0, [refused]);
    expect(acquire(budget, T0 + 1, 'place', { hold: true })).toMatchObject({ kind: 'wait' });
    expect(budget.status(T0 + 1).paused?.reasons).toEqual(['credentials']);
    expect(acquire(budget, T0 + 2, 'a').kind).toBe('granted');
    expect(budget.status(T0 + 2).paused).toBeUndefined();
  });

  test('ends after 15 minutes, because nobody may be left to report that the key is accepted', () => {
    const budget = newBudget();
    expect(budget.hear(T0, [refused]).lookAgainAtMs).toBe(T0 + 15 * MINUTE_MS);
    budget.tick(T0 + 15 * MINUTE_MS - 1);
    expect(budget.facts(T0 + 15 * MINUTE_MS - 1).servicePause).toBe('credentials');
    budget.tick(T0 + 15 * MINUTE_MS);
    expect(budget.facts(T0 + 15 * MINUTE_MS).servicePause).toBeUndefined();
  });

  test.each(['unauthorized', 'limited'] as const)(
    'does not change the pause after a message that was %s',
    (outcome) => {
      const budget = newBudget();
      acquire(budget, T0, 'a');
      settle(budget, T0, 'a', { outcome, retryAfterMs: 10 * MINUTE_MS });
      const before = budget.status(T0 + 1).paused;
      budget.hear(T0 + 1, [refused]);
      expect(budget.status(T0 + 1).paused?.reasons).toContain('credentials');
      budget.hear(T0 + 2, [taken]);
      expect(budget.status(T0 + 2).paused).toEqual(before);
    },
  );

  test('ends when an operator resumes the project', () => {
    const budget = newBudget();
    budget.hear(T0, [refused]);
    budget.resume(T0 + 1);
    expect(budget.status(T0 + 1).paused).toBeUndefined();
  });

  test('is carried to the next run', () => {
    const budget = newBudget();
    budget.hear(T0, [refused]);
    expect(restoreState(JSON.parse(JSON.stringify(carryState(budget.state))))).toEqual(budget.state);
  });
});
