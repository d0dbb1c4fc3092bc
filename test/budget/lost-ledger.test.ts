import { describe, expect, test } from 'vitest';
import { describeBudget } from '../../src/budget/details.js';
import { Budget, carryState, newState, restoreState } from '../../src/budget/index.js';
import type { AcquireRequest } from '../../src/contract/protocol.js';
import { acquire, ask, DRAIN_MS, LEASE_MS, MARGIN_MS, newBudget, settle, spend, T0, WINDOW_MS } from './support.js';

const SETTINGS = { limit: 3, windowMs: WINDOW_MS, reserve: 0, marginMs: MARGIN_MS };

/** A budget that was started at `sinceMs`, for nobody knows of another. */
function startedAt(sinceMs: number): Budget {
  return new Budget(newState('p', SETTINGS, sinceMs));
}

describe('a budget that has taken the place of one that was deleted', () => {
  test('never grants again what was granted before, and the follow-up gets on with its next send number', () => {
    const budget = startedAt(T0);
    const retry = { token: 'retry', grantedBefore: 'surely', ledgerSinceMs: T0 - 5_000 } as const;
    expect(acquire(budget, T0 + 1, 'a', retry)).toMatchObject({ kind: 'alreadyGranted', leaseLeftMs: 0 });
    expect(acquire(budget, T0 + 2, 'a', retry)).toMatchObject({ kind: 'done', outcome: 'unknown' });
    const freeMs = T0 + LEASE_MS + DRAIN_MS + WINDOW_MS + MARGIN_MS;
    expect(acquire(budget, freeMs, 'a', { sendNumber: 2, token: 'next' })).toMatchObject({ kind: 'granted' });
  });

  test('does not grant to the run that a reset made of a follow-up which is older than itself', () => {
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

  test('takes every free slot for used, for one window, once a follow-up of the budget before asks, and says so', () => {
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
    // Nor is it taken for full again by the next that asks.
    acquire(budget, T0 + WINDOW_MS + MARGIN_MS + 10, 'old', waited);
    expect(acquire(budget, fullUntilMs, 'old', waited)).toMatchObject({ kind: 'granted' });
    expect(acquire(budget, fullUntilMs, 'later', waited)).toMatchObject({ kind: 'granted' });
    expect(budget.status(fullUntilMs)).not.toHaveProperty('assumedFullUntil');
  });

  test('is not taken for full by follow-ups of its own, also after its state was restored', () => {
    const budget = startedAt(T0);
    const [answer] = budget.acquire(T0 + 1, { ...fresh('a', T0 + 1), hold: true });
    const ledgerSinceMs = answer.kind === 'wait' ? answer.ledgerSinceMs! : 0;
    const restored = new Budget(restoreState(carryState(budget.state)));
    expect(acquire(restored, T0 + 2, 'a', { ledgerSinceMs })).toMatchObject({ kind: 'granted' });
    expect(restored.status(T0 + 2).used).toBe(1);
  });
});

describe('a budget whose history was set back', () => {
  test('does not grant again what an attempt has noted as granted, although the follow-up waits there', () => {
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

describe('a follow-up that was reset while a later send of it waits', () => {
  test('is told that the earlier one may have been granted, where the budget does not know of it', () => {
    const budget = newBudget({ limit: 0 });
    acquire(budget, T0, 'a', { sendNumber: 2 });
    expect(acquire(budget, T0 + 1, 'a', { token: 'reset' })).toMatchObject({ kind: 'alreadyGranted' });
    expect(acquire(budget, T0 + 2, 'a', { token: 'reset' })).toMatchObject({ kind: 'done', outcome: 'unknown' });
    expect(acquire(budget, T0 + 3, 'a', { sendNumber: 2 })).toMatchObject({ kind: 'wait', reason: 'slot' });
  });
});

describe('a follow-up that was kept outside a full queue', () => {
  test('is granted although 7,500 others were forgotten meanwhile', () => {
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

describe('an ask by which a follow-up leaves', () => {
  test('is answered `closed` where nothing was granted, also if the queue is full, and fences off every other ask', () => {
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

  test('says what was granted, and leaves nothing then', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    const leaving = { token: 'leaving', withdraw: true } as const;
    expect(acquire(budget, T0 + 1, 'a', leaving)).toMatchObject({ kind: 'alreadyGranted' });
    settle(budget, T0 + 2, 'a');
    expect(acquire(budget, T0 + 3, 'a', leaving)).toMatchObject({ kind: 'done', outcome: 'sent' });
  });
});

describe('the ledger keeps what message it let through', () => {
  const asked = { token: 'second start', messageTag: 'another-' };

  test('with a send that is under way, that has ended, and that is only remembered', () => {
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

  test.each(['unknown', 'sent'] as const)('with a send that was repeated, and that turned out as %s', (outcome) => {
    const budget = newBudget();
    acquire(budget, T0, 'a', { messageTag: 'the-one-' });
    if (outcome === 'unknown') settle(budget, T0, 'a', { outcome });
    acquire(budget, T0 + 1, 'a', { sendNumber: 2, token: 'two', messageTag: 'the-one-' });
    if (outcome === 'sent') settle(budget, T0 + 2, 'a', { outcome });
    const answer = { kind: 'done', outcome, messageTag: 'the-one-' };
    expect(acquire(budget, T0 + 3, 'a', asked)).toMatchObject(answer);
  });

  test('and takes that of the latest grant', () => {
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
