import { describe, expect, test } from 'vitest';
import { assumeFull, Budget, carryState, newState, restoreState } from '../../src/budget/index.js';
import { acquire, MARGIN_MS, newBudget, settle, T0, WINDOW_MS } from './support.js';

describe('a budget that lost its state', () => {
  test('learns of an earlier grant from the end of its follow-up', () => {
    const budget = lostBudget();
    budget.hear(T0 + 1, [{ kind: 'finish', workflowId: 'a', jobId: 'job-a', sendNumber: 2, outcome: 'sent' }]);
    const reset = { token: 'reset', firstRunStartedAtMs: T0 - 1 };
    expect(acquire(budget, T0 + 2, 'a', reset)).toMatchObject({ kind: 'done', outcome: 'notSent' });
    expect(acquire(budget, T0 + 2, 'a', { ...reset, sendNumber: 2 })).toMatchObject({ kind: 'done', outcome: 'sent' });
    expect(acquire(budget, T0 + 2, 'a', { ...reset, sendNumber: 3 })).toEqual({ kind: 'closed' });
  });

  test('does not claim that an older follow-up that withdrew was never granted a send', () => {
    const budget = lostBudget();
    budget.hear(T0 + 1, [{ kind: 'finish', workflowId: 'a', jobId: 'job-a', sendNumber: 1 }]);
    const reset = { token: 'reset', firstRunStartedAtMs: T0 - 1 };
    expect(acquire(budget, T0 + 2, 'a', reset)).toMatchObject({ kind: 'alreadyGranted' });
    expect(acquire(budget, T0 + 3, 'a', { ...reset, sendNumber: 2 })).toEqual({ kind: 'closed' });
  });

  test('lets a follow-up that resends go on with its next send number', () => {
    const budget = lostBudget();
    const old = { firstRunStartedAtMs: T0 - 1 };
    expect(acquire(budget, T0 + 1, 'a', old)).toMatchObject({ kind: 'alreadyGranted' });
    expect(acquire(budget, T0 + 2, 'a', old)).toMatchObject({ kind: 'done', outcome: 'unknown' });
    expect(acquire(budget, T0 + 3, 'a', { ...old, sendNumber: 2 })).toMatchObject({ kind: 'wait', reason: 'slot' });
    const freeMs = T0 + WINDOW_MS + MARGIN_MS + 10;
    expect(acquire(budget, freeMs, 'a', { ...old, sendNumber: 2 })).toMatchObject({ kind: 'granted' });
  });
});

describe('a send that was repeated although it may have been delivered', () => {
  test('stays unknown after the next send number is granted', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    settle(budget, T0, 'a', { outcome: 'unknown' });
    acquire(budget, T0 + 1, 'a', { sendNumber: 2, token: 'second' });
    settle(budget, T0 + 1, 'a', { sendNumber: 2, token: 'second', outcome: 'notSent' });
    acquire(budget, T0 + 2, 'a', { sendNumber: 3, token: 'third' });
    // The grant itself is dropped. Only the memory of it is left.
    budget.state.grants = budget.state.grants.filter((grant) => grant.sendNumber === 3);
    const again = new Budget(restoreState(JSON.parse(JSON.stringify(carryState(budget.state)))));
    expect(again.state).toEqual(budget.state);
    const answers = [1, 2].map((sendNumber) => acquire(again, T0 + 3, 'a', { sendNumber, token: 'reset' }));
    expect(answers).toMatchObject([
      { kind: 'done', outcome: 'unknown' },
      { kind: 'done', outcome: 'notSent' },
    ]);
  });

  test.each([
    ['counts as sent', 'sent', { outcome: 'sent', messageTag: 'messages' }],
    ['counts as not sent', 'rejected', { outcome: 'notSent' }],
  ] as const)('%s when a late settle says %s', (_what, outcome, told) => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    acquire(budget, T0 + 1, 'a', { sendNumber: 2, token: 'second' });
    settle(budget, T0 + 2, 'a', { outcome });
    expect(acquire(budget, T0 + 3, 'a', { token: 'reset' })).toEqual({ kind: 'done', ...told });
  });
});

/** A budget for which the message of every follow-up that began before `T0` may have been sent. */
function lostBudget(): Budget {
  const state = newState('p', { limit: 3, windowMs: WINDOW_MS, reserve: 0, marginMs: MARGIN_MS });
  assumeFull(state, T0);
  return new Budget(state);
}
