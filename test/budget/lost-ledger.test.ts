import { describe, expect, test } from 'vitest';
import { describeBudget } from '../../src/budget/details.js';
import { Budget, carryState, newState, restoreState } from '../../src/budget/index.js';
import type { AcquireRequest } from '../../src/contract/protocol.js';
import {
  acquire,
  ask,
  askOnce,
  DRAIN_MS,
  LEASE_MS,
  MARGIN_MS,
  newBudget,
  settle,
  spend,
  T0,
  WINDOW_MS,
} from './support.js';

const SETTINGS = { limit: 3, windowMs: WINDOW_MS, reserve: 0, marginMs: MARGIN_MS };

/** A budget that is started at `sinceMs` because no earlier one is known. */
function startedAt(sinceMs: number): Budget {
  return new Budget(newState('p', SETTINGS, sinceMs));
}

describe('a budget that replaces a deleted one', () => {
  test('never repeats an earlier grant, and lets the follow-up go on with its next send number', () => {
    const budget = startedAt(T0);
    const retry = { token: 'retry', grantedBefore: 'surely', ledgerSinceMs: T0 - 5_000 } as const;
    expect(acquire(budget, T0 + 1, 'a', retry)).toMatchObject({ kind: 'alreadyGranted', leaseLeftMs: 0 });
    expect(acquire(budget, T0 + 2, 'a', retry)).toMatchObject({ kind: 'done', outcome: 'unknown' });
    const freeMs = T0 + LEASE_MS + DRAIN_MS + WINDOW_MS + MARGIN_MS;
    expect(acquire(budget, freeMs, 'a', { sendNumber: 2, token: 'next' })).toMatchObject({ kind: 'granted' });
  });

  test('does not grant to a reset follow-up that is older than the budget', () => {
    const budget = startedAt(T0);
    const reset = { grantedBefore: 'perhaps', firstRunStartedAtMs: T0 - 1 } as const;
    expect(acquire(budget, T0 + 1, 'a', reset)).toMatchObject({ kind: 'alreadyGranted' });
    const younger = { ...reset, firstRunStartedAtMs: T0 + MARGIN_MS + 1 };
    expect(acquire(budget, T0 + MARGIN_MS + 2, 'b', younger)).toMatchObject({ kind: 'granted' });
  });

  test('grants to a follow-up that has never asked before, however old it is', () => {
    const budget = startedAt(T0);
    expect(acquire(budget, T0 + 1, 'a', { firstRunStartedAtMs: T0 - 86_400_000 })).toMatchObject({ kind: 'granted' });
  });

  test('treats every slot as used for one window once a follow-up of the deleted budget asks, and says so', () => {
    const budget = startedAt(T0);
    expect(budget.status(T0)).not.toHaveProperty('assumedFullUntil');
    spend(budget, T0 + 1, 'fresh');
    const waited = { ledgerSinceMs: T0 - 86_400_000, firstRunStartedAtMs: T0 - 5_000 };
    expect(acquire(budget, T0 + 2, 'old', waited)).toMatchObject({ kind: 'wait', reason: 'slot', ledgerSinceMs: T0 });
    const fullUntilMs = T0 + LEASE_MS + DRAIN_MS + WINDOW_MS + MARGIN_MS;
    const status = budget.status(T0 + 3);
    expect(status).toMatchObject({ used: 3, assumedFullUntil: new Date(fullUntilMs).toISOString() });
    expect(describeBudget(status, T0 + 3)).toContain('**sends nothing until ');
    const carried = new Budget(restoreState(JSON.parse(JSON.stringify(carryState(budget.state)))));
    expect(carried.status(T0 + 3)).toEqual(status);
    // The next ask does not start that window again.
    acquire(budget, T0 + WINDOW_MS + MARGIN_MS + 10, 'old', waited);
    expect(acquire(budget, fullUntilMs, 'old', waited)).toMatchObject({ kind: 'granted' });
    expect(acquire(budget, fullUntilMs, 'later', waited)).toMatchObject({ kind: 'granted' });
    expect(budget.status(fullUntilMs)).not.toHaveProperty('assumedFullUntil');
  });

  test('does not treat its slots as used for a follow-up of its own, even after its state is restored', () => {
    const budget = startedAt(T0);
    const [answer] = askOnce(budget, T0 + 1, { ...fresh('a', T0 + 1), hold: true });
    const ledgerSinceMs = answer.kind === 'wait' ? answer.ledgerSinceMs! : 0;
    const restored = new Budget(restoreState(carryState(budget.state)));
    expect(acquire(restored, T0 + 2, 'a', { ledgerSinceMs })).toMatchObject({ kind: 'granted' });
    expect(restored.status(T0 + 2).used).toBe(1);
  });
});

describe('a budget whose history was reset', () => {
  test('does not repeat a grant that an attempt has noted, although the follow-up is back in its queue', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'x');
    acquire(budget, T0, 'a');
    const endMs = T0 + WINDOW_MS + MARGIN_MS;
    expect(acquire(budget, endMs, 'a', { token: 'retry', grantedBefore: 'surely' })).toMatchObject({
      kind: 'alreadyGranted',
    });
    expect(budget.status(endMs).waitingTotal).toBe(0);
  });
});

describe('a follow-up that is reset while its later send waits', () => {
  test('is told that the earlier send may have been granted if the budget does not know of it', () => {
    const budget = newBudget({ limit: 0 });
    acquire(budget, T0, 'a', { sendNumber: 2 });
    expect(acquire(budget, T0 + 1, 'a', { token: 'reset' })).toMatchObject({ kind: 'alreadyGranted' });
    expect(acquire(budget, T0 + 2, 'a', { token: 'reset' })).toMatchObject({ kind: 'done', outcome: 'unknown' });
    expect(acquire(budget, T0 + 3, 'a', { sendNumber: 2 })).toMatchObject({ kind: 'wait', reason: 'slot' });
  });
});

describe('a follow-up that found no place in a full queue', () => {
  test('is granted a send later, although the budget’s memory no longer reaches back to its start', () => {
    const budget = newBudget({ limit: 0 });
    const older = { firstRunStartedAtMs: T0 };
    for (let index = 0; index < 1_000; index++) acquire(budget, T0, `w${index}`);
    expect(acquire(budget, T0, 'outside', older)).toMatchObject({ kind: 'wait', reason: 'queue-full' });
    for (let index = 0; index < 1_000; index++) {
      budget.hear(T0 + 1, [{ kind: 'finish', workflowId: `w${index}`, jobId: `job-w${index}`, sendNumber: 1 }]);
    }
    for (let index = 0; index < 8_000; index++) {
      budget.hear(T0 + 10_000, [{ kind: 'finish', workflowId: `x${index}`, jobId: 'j', sendNumber: 1 }]);
    }
    budget.setLimit(T0 + 10_000, { limit: 1 });
    expect(budget.state.memorySinceMs).toBeGreaterThan(T0);
    expect(acquire(budget, T0 + 10_001, 'outside', older)).toMatchObject({ kind: 'granted' });
  });
});

describe('an ask that leaves the queue', () => {
  test('is answered `closed` if nothing was granted, even with a full queue, and fences off every other ask', () => {
    const budget = newBudget({ limit: 0 });
    for (let index = 0; index < 1_000; index++) acquire(budget, T0, `w${index}`);
    expect(acquire(budget, T0 + 10, 'a', { attemptScheduledAtMs: T0 + 10, withdraw: true })).toEqual({
      kind: 'closed',
    });
    budget.setLimit(T0 + 20, { limit: 10 });
    expect(acquire(budget, T0 + 30, 'a', { token: 'frozen', attemptScheduledAtMs: T0 })).toEqual({ kind: 'closed' });
    expect(budget.status(T0 + 30).waitingTotal).toBe(1_000);
  });

  test('gives up the place', () => {
    const budget = newBudget({ limit: 0 });
    acquire(budget, T0, 'a');
    expect(acquire(budget, T0 + 1, 'a', { withdraw: true })).toEqual({ kind: 'closed' });
    expect(budget.status(T0 + 1).waitingTotal).toBe(0);
  });

  test('is told of an earlier grant and of its outcome', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    const leaving = { token: 'leaving', withdraw: true } as const;
    expect(acquire(budget, T0 + 1, 'a', leaving)).toMatchObject({ kind: 'alreadyGranted' });
    settle(budget, T0 + 2, 'a');
    expect(acquire(budget, T0 + 3, 'a', leaving)).toMatchObject({ kind: 'done', outcome: 'sent' });
  });
});

describe('the ledger keeps the tag of the message that it granted', () => {
  const asked = { token: 'second start', messageTag: 'another-' };

  test('for a send that is under way, for one that has ended, and for one that is only remembered', () => {
    const budget = newBudget({ limit: 200 });
    acquire(budget, T0, 'a', { messageTag: 'the-one-' });
    expect(acquire(budget, T0 + 1, 'a', asked)).toMatchObject({ kind: 'alreadyGranted', messageTag: 'the-one-' });
    settle(budget, T0 + 2, 'a');
    expect(acquire(budget, T0 + 3, 'a', asked)).toMatchObject({
      kind: 'done',
      outcome: 'sent',
      messageTag: 'the-one-',
      settledAtMs: T0 + 2,
    });
    for (let index = 0; index < 120; index++) spend(budget, T0 + 10, `w${index}`);
    const carried = new Budget(restoreState(JSON.parse(JSON.stringify(carryState(budget.state)))));
    expect(acquire(carried, T0 + 20, 'a', asked)).toEqual({
      kind: 'done',
      outcome: 'sent',
      messageTag: 'the-one-',
      grantedAtMs: T0,
    });
  });

  test.each(['unknown', 'sent'] as const)('for a repeated send that turned out to be %s', (outcome) => {
    const budget = newBudget();
    acquire(budget, T0, 'a', { messageTag: 'the-one-' });
    if (outcome === 'unknown') settle(budget, T0, 'a', { outcome });
    acquire(budget, T0 + 1, 'a', { sendNumber: 2, token: 'two', messageTag: 'the-one-' });
    if (outcome === 'sent') settle(budget, T0 + 2, 'a', { outcome });
    const answer = { kind: 'done', outcome, messageTag: 'the-one-' };
    expect(acquire(budget, T0 + 3, 'a', asked)).toMatchObject(answer);
  });

  test('and gives the tag of the latest grant', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a', { messageTag: 'the-one-' });
    settle(budget, T0, 'a', { outcome: 'notSent' });
    acquire(budget, T0, 'a', { sendNumber: 2, token: 'two', messageTag: 'the-two-' });
    expect(acquire(budget, T0, 'a', { ...asked, sendNumber: 2 })).toMatchObject({ messageTag: 'the-two-' });
  });
});

/** An ask of a follow-up that has just begun. */
function fresh(name: string, nowMs: number): AcquireRequest {
  return ask(name, nowMs, { firstRunStartedAtMs: nowMs });
}
