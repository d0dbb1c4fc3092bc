import { describe, expect, test } from 'vitest';
import { Budget, carryState, restoreState } from '../../src/budget/index.js';
import type { AcquireAnswer, AcquireRequest } from '../../src/contract/protocol.js';
import {
  acquire,
  ask,
  askOnce,
  DRAIN_MS,
  finish,
  LEASE_MS,
  MARGIN_MS,
  newBudget,
  settle,
  spend,
  T0,
  WINDOW_MS,
} from './support.js';

describe('words that come with asks', () => {
  test('are heard before the asks are answered', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a', { jobId: 'job' });
    const second = ask('b', T0 + 1, { jobId: 'job' });
    expect(askOnce(budget, T0 + 1, second)[0]).toMatchObject({ kind: 'wait', reason: 'job-busy' });
    const end = { kind: 'finish' as const, workflowId: 'a', jobId: 'job', sendNumber: 1, outcome: 'sent' as const };
    const [answers] = budget.acquireAll(T0 + 2, [second], [end]);
    expect(answers).toMatchObject([{ kind: 'granted' }]);
    expect(budget.status(T0 + 2)).toMatchObject({ used: 2, unsettled: 1 });
  });
});

describe('the end of a send', () => {
  test('is awaited as often as slots are free for sends that may not start before', () => {
    const budget = newBudget({ limit: 20 });
    const names = Array.from({ length: 30 }, (_, index) => `${index}`);
    const [answers] = budget.acquireAll(
      T0,
      names.map((name) => ask(name, T0)),
    );
    const awaited = (answer: AcquireAnswer) => answer.kind === 'granted' && answer.isAwaited;
    expect(answers.map(awaited)).toEqual(names.map((_, index) => index < 10));
    expect(restoreState(carryState(budget.state)).grants).toEqual(budget.state.grants);
    for (const [index, name] of names.slice(0, 10).entries()) {
      const again = budget.acquireAll(T0 + index, [ask(name, T0)])[0];
      expect(again).toMatchObject([{ kind: 'granted', isAwaited: true }]);
      expect(budget.isQuiet(T0 + index)).toBe(false);
      settle(budget, T0 + index, name);
      expect(awaited(acquire(budget, T0 + index, `${10 + index}`))).not.toBe(true);
    }
    expect(budget.isQuiet(T0 + 10)).toBe(true);
  });

  test('is not awaited by those who wait for a slot to end', () => {
    const budget = newBudget({ limit: 1 });
    acquire(budget, T0, 'a');
    settle(budget, T0, 'a');
    for (const name of ['b', 'c']) acquire(budget, T0, name);
    const slotFreeAtMs = T0 + WINDOW_MS + MARGIN_MS;
    expect(acquire(budget, slotFreeAtMs, 'b')).toEqual({
      kind: 'granted',
      grantedAtMs: slotFreeAtMs,
      ledgerSinceMs: 0,
    });
  });

  test('is awaited by those who wait for a slot to end if the window is over before the end is told anyway', () => {
    const budget = newBudget({ limit: 1, windowMs: 2_000 });
    expect(acquire(budget, T0, 'a')).not.toHaveProperty('isAwaited');
    acquire(budget, T0 + 1, 'b');
    expect(acquire(budget, T0 + 2, 'a')).toMatchObject({ kind: 'granted', isAwaited: true });
  });

  test('is awaited if it may end a pause', () => {
    const budget = newBudget({ limit: 5 });
    acquire(budget, T0, 'a');
    settle(budget, T0, 'a', { outcome: 'limited' });
    expect(acquire(budget, T0 + WINDOW_MS / 60, 'b')).toMatchObject({ kind: 'granted', isAwaited: true });
  });

  test('is awaited if more than half of the sends that may be in flight are', () => {
    const budget = newBudget({ limit: 100 });
    const answers = Array.from({ length: 7 }, (_, index) => acquire(budget, T0, `${index}`));
    expect(answers.map((answer) => 'isAwaited' in answer)).toEqual([false, false, false, false, false, true, true]);
  });
});

describe('a request that is known', () => {
  test('is granted again to the same token, so a lost answer loses nothing', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    expect(acquire(budget, T0 + 5, 'a')).toEqual({ kind: 'granted', grantedAtMs: T0, ledgerSinceMs: 0 });
    expect(budget.status(T0 + 5).used).toBe(1);
  });

  test('is never granted to another token', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    expect(acquire(budget, T0 + 5_000, 'a', { token: 'retry' })).toEqual({
      kind: 'alreadyGranted',
      leaseLeftMs: LEASE_MS - 5_000,
      drainLeftMs: DRAIN_MS,
      grantedAtMs: T0,
      messageTag: 'messages',
    });
    expect(acquire(budget, T0 + LEASE_MS + DRAIN_MS + 1, 'a', { token: 'retry' })).toMatchObject({
      kind: 'alreadyGranted',
      leaseLeftMs: 0,
      drainLeftMs: 0,
    });
  });

  test('is answered with its outcome once it is settled', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    settle(budget, T0 + 100, 'a', { outcome: 'rejected', message: 'HTTP 400: no' });
    expect(acquire(budget, T0 + 200, 'a', { token: 'retry' })).toMatchObject({
      kind: 'done',
      outcome: 'rejected',
      message: 'HTTP 400: no',
    });
  });

  test('is answered with its outcome even after the follow-up has ended', () => {
    const budget = newBudget();
    spend(budget, T0, 'a');
    expect(acquire(budget, T0 + 1, 'a', { token: 'reset' })).toMatchObject({ kind: 'done', outcome: 'sent' });
  });

  test('takes its outcome from `finish` if the settle was lost', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    budget.hear(T0, [{ kind: 'finish', workflowId: 'a', jobId: 'job-a', sendNumber: 1, outcome: 'sent' }]);
    expect(acquire(budget, T0 + 1, 'a', { token: 'reset' })).toMatchObject({ kind: 'done', outcome: 'sent' });
  });

  test('with a lower send number than the granted one is answered `notSent`', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    settle(budget, T0, 'a', { outcome: 'notSent' });
    expect(acquire(budget, T0 + 1, 'a', { sendNumber: 2, token: 'second' })).toMatchObject({ kind: 'granted' });
    expect(acquire(budget, T0 + 2, 'a', { token: 'reset' })).toEqual({ kind: 'done', outcome: 'notSent' });
  });
});

describe('an ask', () => {
  test('after finish or withdraw is closed', () => {
    for (const kind of ['finish', 'withdraw'] as const) {
      const budget = newBudget();
      budget.hear(T0, [{ kind, workflowId: 'a', jobId: 'job-a', sendNumber: 1 }]);
      expect(acquire(budget, T0 + 1, 'a')).toEqual({ kind: 'closed' });
      expect(budget.status(T0 + 1).waitingTotal).toBe(0);
    }
  });

  test('older than the newest one is stale and changes nothing', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'x');
    acquire(budget, T0 + 1_000, 'a', { attemptScheduledAtMs: T0 + 1_000 });
    const end = T0 + WINDOW_MS * 2;
    expect(acquire(budget, end, 'a', { attemptScheduledAtMs: T0 + 999 })).toEqual({ kind: 'stale' });
    expect(budget.status(end).waitingTotal).toBe(1);
  });

  test('past its deadline is stale and takes no place in the queue', () => {
    const budget = newBudget();
    const oldMs = T0 - LEASE_MS - 25_001;
    expect(acquire(budget, T0, 'a', { attemptScheduledAtMs: oldMs })).toEqual({ kind: 'stale' });
    expect(acquire(budget, T0, 'a', { attemptScheduledAtMs: oldMs + 1 })).toMatchObject({ kind: 'granted' });
    expect(budget.status(T0).waitingTotal).toBe(0);
  });

  test('with `hold` keeps a place and is not granted', () => {
    const budget = newBudget();
    expect(acquire(budget, T0, 'a', { hold: true })).toMatchObject({ kind: 'wait', reason: 'job-busy' });
    expect(acquire(budget, T0 + 1, 'b')).toMatchObject({ kind: 'granted' });
    expect(budget.status(T0 + 1)).toMatchObject({ used: 1, waitingTotal: 1, waitingForJob: 1 });
    expect(acquire(budget, T0 + 2, 'a')).toMatchObject({ kind: 'granted' });
  });

  test('of a follow-up that is older than the memory may have been granted', () => {
    const budget = newBudget();
    budget.state.memorySinceMs = T0;
    const asked = (name: string, more: Partial<AcquireRequest>) => acquire(budget, T0 + 1, name, more).kind;
    expect(asked('reset', { firstRunStartedAtMs: T0, grantedBefore: 'perhaps' })).toBe('alreadyGranted');
    expect(asked('younger', { firstRunStartedAtMs: T0 + 1, grantedBefore: 'perhaps' })).toBe('granted');
    expect(asked('granted', { firstRunStartedAtMs: T0 + 1, grantedBefore: 'surely' })).toBe('alreadyGranted');
    expect(asked('first', { firstRunStartedAtMs: T0 })).toBe('granted');
  });

  test('of a follow-up that was reset is in doubt although the budget knows of a send in doubt before it', () => {
    const budget = newBudget();
    budget.state.memorySinceMs = T0;
    const reset = { firstRunStartedAtMs: T0, grantedBefore: 'perhaps' } as const;
    // The budget before this one was deleted. Only this one hears the late ask.
    expect(acquire(budget, T0 + 1, 'a', { ...reset, sendNumber: 1 })).toMatchObject({ kind: 'alreadyGranted' });
    expect(acquire(budget, T0 + 2, 'a', { ...reset, sendNumber: 2 })).toMatchObject({ kind: 'alreadyGranted' });
    // The follow-up repeats what is in doubt, if it may. So this ends.
    expect(acquire(budget, T0 + 3, 'a', { ...reset, sendNumber: 3 })).toMatchObject({ kind: 'granted' });
    expect(acquire(budget, T0 + 4, 'a', { ...reset, sendNumber: 2 })).toMatchObject({ outcome: 'unknown' });
  });

  test('beyond 1,000 waiters gets no place and is told so', () => {
    const budget = newBudget({ limit: 0 });
    for (let index = 0; index < 1_000; index++) acquire(budget, T0, `w${index}`);
    expect(acquire(budget, T0, 'late')).toMatchObject({ kind: 'wait', reason: 'queue-full' });
    expect(budget.status(T0).waitingTotal).toBe(1_000);
  });
});

describe('the memory of a budget', () => {
  test('holds the newest 7,500 ids, and takes an older follow-up for one that may have been granted', () => {
    const budget = newBudget();
    for (let index = 0; index <= 7_500; index++) {
      acquire(budget, T0 + index, `w${index}`, { hold: true, firstRunStartedAtMs: T0 + index });
      finish(budget, T0 + index, `w${index}`);
    }
    expect(budget.state.memory.size).toBe(7_500);
    expect(acquire(budget, T0 + 8_000, 'w1', { firstRunStartedAtMs: T0 + 1 })).toEqual({ kind: 'closed' });
    const reset = { firstRunStartedAtMs: T0, grantedBefore: 'perhaps' } as const;
    expect(acquire(budget, T0 + 8_000, 'w0', reset)).toMatchObject({ kind: 'alreadyGranted' });
  });

  test('lasts 72 h', () => {
    const budget = newBudget();
    spend(budget, T0, 'a');
    const laterMs = T0 + 73 * 3_600_000;
    finish(budget, laterMs, 'b');
    expect(acquire(budget, laterMs, 'a', { grantedBefore: 'perhaps' })).toMatchObject({ kind: 'alreadyGranted' });
  });

  test('survives JSON whole', () => {
    const budget = newBudget();
    spend(budget, T0, 'a', 'b');
    acquire(budget, T0, 'c');
    acquire(budget, T0, 'd', { jobId: 'job-c' });
    acquire(budget, T0, 'e', { hold: true });
    const lastJobSeen = { status: 'completed', prLinkHash: 'x', archivedAt: null };
    budget.hear(T0, [{ kind: 'finish', workflowId: 'c', jobId: 'job-c', sendNumber: 1, lastJobSeen }]);
    const again = new Budget(restoreState(JSON.parse(JSON.stringify(carryState(budget.state)))));
    expect(again.state).toEqual(budget.state);
    expect(again.status(T0)).toEqual(budget.status(T0));
    expect(acquire(again, T0 + 1, 'a', { token: 'x' })).toMatchObject({ kind: 'done', outcome: 'sent' });
  });
});

describe('an ask that says that no earlier ask has sent', () => {
  const first = { askNumber: 1, provenNotSent: true } as const;
  const later = { token: 'later', askNumber: 2, provenNotSent: true } as const;

  test('takes back what was granted to an earlier ask of the same follow-up', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a', first);
    expect(acquire(budget, T0 + 1, 'a', later)).toMatchObject({ kind: 'done', outcome: 'notSent' });
    expect(budget.status(T0 + 1)).toMatchObject({ used: 0, unsettled: 0 });
    expect(acquire(budget, T0 + 2, 'a', { sendNumber: 2, token: 'second' })).toMatchObject({ kind: 'granted' });
  });

  test('takes back a grant long after its lease, however many others were sent since', () => {
    const budget = newBudget({ limit: 300 });
    acquire(budget, T0, 'a', first);
    for (let index = 0; index < 250; index++) spend(budget, T0 + 1_000 * index, `x-${index}`);
    const lateMs = T0 + LEASE_MS + DRAIN_MS + 600_000;
    spend(budget, lateMs, 'last');
    const carried = new Budget(restoreState(carryState(budget.state)));
    expect(acquire(carried, lateMs, 'a', later)).toMatchObject({ kind: 'done', outcome: 'notSent' });
    expect(carried.status(lateMs)).toMatchObject({ used: 251 });
  });

  test('takes nothing back from a later ask that overtook it', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a', later);
    expect(acquire(budget, T0 + 1, 'a', { ...first, token: 'late' })).toMatchObject({
      kind: 'alreadyGranted',
    });
    expect(budget.status(T0 + 1).unsettled).toBe(1);
  });

  test.each([
    ['another attempt of the same ask', { ...first, askNumber: 2 }],
    ['an ask without a number, from a run that replaces another', { provenNotSent: true as const }],
    ['an earlier start of the same id', { ...first, firstRunStartedAtMs: T0 - 1 }],
    ['an attempt after a reset of its activity, which does not say it', { askNumber: 1 }],
  ])('takes nothing back from %s', (_whom, granted) => {
    const budget = newBudget();
    acquire(budget, T0, 'a', granted);
    expect(acquire(budget, T0 + 1, 'a', later)).toMatchObject({ kind: 'alreadyGranted' });
    expect(budget.status(T0 + 1).unsettled).toBe(1);
  });

  test('changes nothing if the outcome of the earlier send is known', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a', first);
    settle(budget, T0 + 1, 'a');
    expect(acquire(budget, T0 + 2, 'a', later)).toMatchObject({ kind: 'done', outcome: 'sent' });
  });

  test('takes the grant back even after the budget has continued as new', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a', first);
    const next = new Budget(restoreState(JSON.parse(JSON.stringify(carryState(budget.state)))));
    expect(acquire(next, T0 + 1, 'a', later)).toMatchObject({ kind: 'done', outcome: 'notSent' });
  });
});
