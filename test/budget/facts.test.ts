import { describe, expect, test } from 'vitest';
import { Budget, carryState, restoreState } from '../../src/budget/index.js';
import { describeBudget } from '../../src/budget/details.js';
import { acquire, finish, LEASE_MS, MARGIN_MS, newBudget, settle, spend, T0, WINDOW_MS } from './support.js';

const again = (budget: Budget) => new Budget(restoreState(JSON.parse(JSON.stringify(carryState(budget.state)))));

describe('the facts of a budget', () => {
  test('give slots, sends and leases as times, and count who waits for what', () => {
    const budget = newBudget();
    spend(budget, T0, 'a');
    acquire(budget, T0 + 1_000, 'b');
    acquire(budget, T0 + 1_000, 'b2', { jobId: 'job-b' });
    acquire(budget, T0 + 1_000, 'held', { hold: true });
    expect(budget.facts(T0 + 1_000)).toEqual({
      projectId: 'p',
      limit: 3,
      windowMs: WINDOW_MS,
      slotEndsMs: [T0 + WINDOW_MS + MARGIN_MS, T0 + 1_000 + LEASE_MS + 120_000 + WINDOW_MS + MARGIN_MS],
      sentAtMs: [T0, T0 + 1_000],
      leaseEndsMs: [T0 + 1_000 + LEASE_MS],
      waiting: 2,
      waitingForJob: 2,
    });
  });

  test('do not count a message that was not sent', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    settle(budget, T0 + 1, 'a', { outcome: 'notSent' });
    expect(budget.facts(T0 + 1)).toMatchObject({ slotEndsMs: [], sentAtMs: [] });
  });

  test('count sends that are no longer kept in full, and drop those that are older than the window', () => {
    const budget = newBudget({ limit: 150 });
    for (let index = 0; index < 150; index++) spend(budget, T0 + index, `w${index}`);
    expect(budget.facts(T0 + 150).sentAtMs).toHaveLength(150);
    expect(budget.facts(T0 + WINDOW_MS).sentAtMs).toHaveLength(149);
    expect(budget.facts(T0 + WINDOW_MS).slotEndsMs).toHaveLength(150);
  });

  test('name both pauses, and when the operator’s ends', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    settle(budget, T0, 'a', { outcome: 'limited' });
    budget.pause(T0, { forMs: 5_000 });
    expect(budget.facts(T0)).toMatchObject({ operatorPause: { untilMs: T0 + 5_000 }, servicePause: 'limited' });
    const later = budget.facts(T0 + 5_000);
    expect(later).toMatchObject({ servicePause: 'limited' });
    expect(later).not.toHaveProperty('operatorPause');
  });
});

test('each 429 is counted once, and the count is carried to the next run', () => {
  const budget = newBudget();
  acquire(budget, T0, 'a');
  settle(budget, T0, 'a', { outcome: 'limited' });
  settle(budget, T0, 'a', { outcome: 'limited' });
  finish(budget, T0, 'a');
  expect(budget.state.limitedCount).toBe(1);
  expect(again(budget).state).toEqual(budget.state);
});

test('a rejection is answered with its HTTP status, even in the next run', () => {
  const budget = newBudget();
  acquire(budget, T0, 'a');
  settle(budget, T0, 'a', { outcome: 'rejected', message: 'HTTP 404: no such job', statusCode: 404 });
  for (const each of [budget, again(budget)]) {
    expect(acquire(each, T0 + 1, 'a', { token: 'retry' })).toMatchObject({ outcome: 'rejected', statusCode: 404 });
  }
});

describe('a pause in the status', () => {
  test('has its start, its end and the operator’s note, which Markdown does not interpret', () => {
    const budget = newBudget();
    const note = 'release `freeze` [x](javascript:alert(1))\n# big';
    budget.pause(T0, { forMs: 86_400_000, note });
    const status = budget.status(T0 + 1_000);
    expect(status.paused).toMatchObject({ since: '2026-01-01T00:00:00.000Z', until: '2026-01-02T00:00:00.000Z', note });
    expect(describeBudget(status, T0 + 1_000)).toContain(
      '**paused: by an operator since 00:00:00 UTC until 2026-01-02 00:00:00 UTC (`release  freeze  [x](javascript:alert(1)) # big`)**\n',
    );
  });

  test('starts with the first 429, however often it is extended, and is carried to the next run', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    settle(budget, T0 + 1_000, 'a', { outcome: 'limited' });
    const probeAtMs = T0 + 1_000 + WINDOW_MS / 60;
    acquire(budget, probeAtMs, 'b');
    settle(budget, probeAtMs, 'b', { outcome: 'limited' });
    const since = new Date(T0 + 1_000).toISOString();
    expect(budget.status(probeAtMs).paused).toMatchObject({ reasons: ['limited'], since });
    expect(again(budget).status(probeAtMs).paused).toEqual(budget.status(probeAtMs).paused);
  });

  test('without an end says that it lasts until the budget is resumed', () => {
    const budget = newBudget();
    budget.pause(T0, {});
    expect(describeBudget(budget.status(T0), T0)).toContain(
      '**paused: by an operator since 00:00:00 UTC until it is resumed**\n',
    );
  });

  test('from the state of an older version has no start', () => {
    const budget = newBudget();
    budget.state.operatorPause = { note: 'x' };
    budget.state.pause = { reason: 'limited', untilMs: T0, step: 1 };
    expect(again(budget).status(T0).paused).toEqual({ reasons: ['operator', 'limited'], note: 'x' });
  });
});
