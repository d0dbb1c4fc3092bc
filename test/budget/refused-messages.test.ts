import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import { HOUR, MINUTE, SECOND } from '../support/times.js';
import { followUp, T0, TestBudget } from './support.js';

/** The message of `bad` was refused, then the one of `good` accepted. `bad` has just been granted its second send. */
function budgetAfterRefusal(reason: 'credentials' | 'payment' = 'credentials'): TestBudget {
  const budget = new TestBudget({ limit: 100 });
  budget.ask('bad');
  budget.report('bad', reason);
  budget.ask('bad', { sendNumber: 2 });
  budget.ask('good');
  budget.advance(MINUTE);
  expect(budget.granted()).toEqual(['good']);
  budget.report('good');
  expect(budget.granted()).toEqual(['bad']);
  return budget;
}

describe('a refused message among accepted ones', () => {
  it('waits three times as long after each refusal, up to an hour', () => {
    const budget = budgetAfterRefusal();
    /** The send of `bad` is refused, and a millisecond later another message is accepted. */
    const refuseSend = (sendNumber: number) => {
      budget.report('bad', 'credentials', { sendNumber });
      budget.ask('bad', { sendNumber: sendNumber + 1 });
      budget.advance(1);
      budget.send(`good${sendNumber}`);
      budget.end(`good${sendNumber}`);
      expect(budget.granted()).toEqual([]);
    };
    refuseSend(2);
    expect(budget.nextGrants()).toEqual([90 * SECOND - 1, ['bad']]);
    refuseSend(3);
    expect(budget.nextGrants()).toEqual([270 * SECOND - 1, ['bad']]);
    refuseSend(4);
    expect(budget.nextGrants()).toEqual([810 * SECOND - 1, ['bad']]);
    refuseSend(5);
    expect(budget.nextGrants()).toEqual([2_430 * SECOND - 1, ['bad']]);
    refuseSend(6);
    expect(budget.nextGrants()).toEqual([HOUR - 1, ['bad']]);
    refuseSend(7);
    expect(budget.nextGrants()).toEqual([HOUR - 1, ['bad']]);
  });

  it('pauses no others', () => {
    const budget = budgetAfterRefusal();
    budget.report('bad', 'credentials');
    expect(budget.state.pace.pause).toBeUndefined();
    expect(budget.ask('other')).toMatchObject({ kind: 'granted' });
  });

  it('pauses the project with two 429s, and waits alone from the third on', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.ask('bad');
    budget.report('bad', 'limited');
    expect(budget.status().paused).toMatchObject({ reasons: ['limited'] });
    budget.ask('bad', { sendNumber: 2 });
    budget.ask('other');
    expect(budget.nextGrants()).toEqual([36 * SECOND, ['other']]);
    budget.report('other');
    expect(budget.nextGrants()).toEqual([36 * SECOND, ['bad']]);
    budget.report('bad', 'limited');
    expect(budget.status().paused).toMatchObject({ reasons: ['limited'] });
    budget.ask('bad', { sendNumber: 3 });
    budget.ask('another');
    expect(budget.nextGrants()[1]).toEqual(['another']);
    budget.report('another');
    expect(budget.nextGrants()[1]).toEqual(['bad']);
    budget.report('bad', 'limited');
    expect(budget.state.pace.pause).toBeUndefined();
  });

  it('lengthens a pause for a 429 as its probe', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.ask('bad');
    budget.report('bad', 'limited');
    budget.ask('bad', { sendNumber: 2 });
    budget.ask('good');
    expect(budget.nextGrants()).toEqual([36 * SECOND, ['good']]);
    budget.report('good');
    expect(budget.nextGrants()).toEqual([36 * SECOND, ['bad']]);
    budget.report('bad', 'limited');
    budget.ask('bad', { sendNumber: 3 });
    budget.ask('also-good', { startedAtMs: T0 - 1 });
    expect(budget.nextGrants()[1]).toEqual(['also-good']);
    budget.report('also-good');
    budget.ask('limited', { startedAtMs: T0 - 1 });
    expect(budget.nextGrants()[1]).toEqual(['limited']);
    budget.report('limited', 'limited');
    expect(budget.nextGrants()[1]).toEqual(['bad']);
    budget.report('bad', 'limited');
    expect(budget.status().paused).toMatchObject({ reasons: ['limited'] });
  });

  it('waits out its Retry-After', () => {
    const budget = budgetAfterRefusal('payment');
    budget.report('bad', 'payment', { retryAfterMs: 2 * HOUR });
    budget.ask('bad', { sendNumber: 3 });
    expect(budget.nextGrants()).toEqual([2 * HOUR, ['bad']]);
  });

  it('waits out its Retry-After although a later read gets a shorter one', () => {
    const budget = budgetAfterRefusal('payment');
    budget.report('bad', 'payment', { retryAfterMs: 2 * HOUR });
    budget.advance(MINUTE);
    budget.ask('bad', { sendNumber: 3, refusal: 'limited', retryAfterMs: SECOND });
    expect(budget.nextGrants()).toEqual([2 * HOUR - MINUTE, ['bad']]);
  });

  it('waits out a Retry-After that a restored budget receives after the next ask', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.ask('bad', { sendNumber: 2 });
    budget.report('bad', 'payment', { sendNumber: 1, retryAfterMs: 2 * HOUR });
    budget.book([]);
    expect(budget.nextGrants()).toEqual([2 * HOUR, ['bad']]);
  });

  it('leaves the turn of its job to another message from its first refusal on', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(['bad', 'good']);
    budget.ask('other', { job: 'bad', startedAtMs: T0 + 1 });
    budget.signals();
    budget.report('bad', 'credentials');
    budget.ask('bad', { sendNumber: 2 });
    budget.report('good');
    expect(budget.granted()).toEqual(['other']);
  });

  it('stands in line behind those that started while it waited', () => {
    const budget = budgetAfterRefusal();
    budget.report('bad', 'credentials');
    budget.ask('bad', { sendNumber: 3 });
    budget.pause({ untilMs: budget.nowMs + 10 * MINUTE });
    budget.ask('later', { startedAtMs: budget.nowMs });
    expect(budget.nextGrants()).toEqual([10 * MINUTE, ['later', 'bad']]);
  });

  it('is sent at once when an operator resumes the project', () => {
    const budget = budgetAfterRefusal('payment');
    budget.report('bad', 'payment');
    budget.ask('bad', { sendNumber: 3 });
    budget.resume();
    expect(budget.granted()).toEqual(['bad']);
  });

  it('is sent at once if it asks after an operator has resumed the project', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.ask('bad');
    budget.report('bad', 'notSent', { refusal: 'credentials' });
    budget.resume();
    expect(budget.ask('bad', { sendNumber: 2 })).toMatchObject({ kind: 'granted' });
  });

  it('has its refusal as the reason to wait', () => {
    const budget = budgetAfterRefusal();
    budget.report('bad', 'credentials', { statusCode: 403 });
    expect(budget.ask('bad', { sendNumber: 3 })).toMatchObject({
      ...{ kind: 'waiting', reason: 'credentials' },
      pause: { by: 'message', until: iso(T0 + MINUTE + 90 * SECOND), statusCode: 403 },
    });
  });

  it('is shown in line with its HTTP status and the time of its next send', () => {
    const budget = budgetAfterRefusal();
    budget.report('bad', 'credentials', { statusCode: 403 });
    budget.ask('bad', { sendNumber: 3 });
    const refusal = { reason: 'credentials', statusCode: 403, until: iso(T0 + MINUTE + 90 * SECOND) };
    expect(budget.status().waiting).toEqual([
      { workflowId: followUp('bad'), lane: 'interactive', position: 1, refusal },
    ]);
  });

  it('is counted by its HTTP status beside those that were accepted', () => {
    const budget = budgetAfterRefusal();
    budget.report('bad', 'credentials', { statusCode: 403 });
    expect(budget.status().refused).toEqual([
      { reason: 'credentials', statusCode: 403, messages: 1, of: 2, accepted: 1 },
    ]);
  });
});
