import { describe, expect, it } from 'vitest';
import { MINUTE, SECOND } from '../support/times.js';
import { afterReset, LEASE, OVER, running, startedLater, T0, TestBudget } from './support.js';

describe('an ask that comes again', () => {
  it('gets the same grant, with its time and its lease', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.advance(SECOND);
    expect(budget.ask('a')).toMatchObject({ kind: 'granted', grantedAtMs: T0, leaseMs: LEASE, overAtMs: T0 + OVER });
    expect(budget.usedSlots()).toBe(1);
  });

  it('gets a lease that has passed once no byte of the send can arrive', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.advance(OVER);
    expect(budget.ask('a')).toMatchObject({ kind: 'granted', leaseMs: 1 });
    expect(budget.usedSlots()).toBe(1);
  });

  it('learns the outcome of the send, and when it was reported', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.advance(300);
    budget.report('a', 'sent');
    expect(budget.ask('a')).toMatchObject({
      ...{ kind: 'earlierSend', sendNumber: 1, outcome: 'sent', verdict: 'current' },
      ...{ grantedAtMs: T0, outcomeAtMs: T0 + 300, overAtMs: T0 + OVER },
    });
  });

  it('gets nothing with another message', () => {
    const budget = new TestBudget();
    budget.send('a');
    expect(budget.ask('a', { messageTag: 'another' })).toEqual({ kind: 'otherMessage' });
  });

  it('gets nothing after the end of its run', () => {
    const budget = new TestBudget();
    budget.send('a');
    budget.end('a');
    expect(budget.ask('a')).toEqual({ kind: 'ended' });
  });
});

describe('a run that replaces another', () => {
  it('learns that a send was granted', () => {
    const budget = new TestBudget();
    budget.ask('a');
    expect(budget.ask('a', afterReset)).toMatchObject({ kind: 'earlierSend', runId: 'new-run', outcome: null });
    expect(budget.usedSlots()).toBe(1);
  });

  it('is named in the replies "waiting" and "full"', () => {
    const budget = new TestBudget({ limit: 0, capacity: { total: 1, forJob: 10 } });
    const fourthSend = { ...afterReset, ...startedLater, sendNumber: 4 };
    expect(budget.ask('a', fourthSend)).toMatchObject({
      ...{ kind: 'waiting', reason: 'slot', runId: 'new-run', sendNumber: 4 },
    });
    expect(budget.ask('b', fourthSend)).toMatchObject({
      ...{ kind: 'full', reason: 'queue-full', runId: 'new-run', sendNumber: 4 },
    });
  });

  it('is granted any send if it began within the memory of the budget, which knows none of it', () => {
    const budget = new TestBudget();
    const reply = budget.ask('a', { ...afterReset, ...startedLater, sendNumber: 4 });
    expect(reply).toMatchObject({ kind: 'granted', runId: 'new-run' });
  });

  it('may have sent before if it began before the memory of the budget', () => {
    const budget = new TestBudget();
    expect(budget.ask('b', afterReset)).toMatchObject({
      ...{ kind: 'earlierSend', outcome: 'unknown', verdict: 'forgotten' },
    });
  });

  it('keeps the place in line of the run before, although that reports its end later', () => {
    const budget = new TestBudget({ limit: 0 });
    budget.ask('a', startedLater);
    budget.ask('a', afterReset);
    budget.end('a', { runId: 'run-of-a' });
    budget.setLimit({ limit: 1 });
    expect(budget.granted()).toEqual(['a']);
    expect(budget.ask('a')).toMatchObject({ kind: 'granted', runId: 'new-run' });
  });

  it('keeps that place if a signal to the run before finds nobody', () => {
    const budget = new TestBudget({ limit: 0 });
    budget.ask('a', startedLater);
    budget.pause();
    const signals = budget.signals();
    budget.ask('a', afterReset);
    budget.noteClosed(signals);
    expect(budget.line()).toEqual(['a']);
  });

  it('is granted the next send if the one before was not sent', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.ask('a');
    expect(budget.ask('a', afterReset)).toMatchObject({ kind: 'earlierSend', outcome: null });
    budget.report('a', 'notSent', { runId: 'run-of-a' });
    expect(budget.ask('a')).toMatchObject({ kind: 'earlierSend', outcome: 'notSent' });
    expect(budget.ask('a', { sendNumber: 2 })).toMatchObject({ kind: 'granted', runId: 'new-run' });
  });

  it('takes the turn of its job again while nobody else was granted it', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.end('a');
    expect(budget.ask('a', afterReset)).toMatchObject({ kind: 'earlierSend', outcome: 'sent', verdict: 'current' });
    expect(budget.ask('b', { job: 'x' })).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
  });

  it('leaves the turn to another follow-up that was granted it', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    budget.end('a');
    expect(budget.granted()).toEqual(['b']);
    expect(budget.ask('a', afterReset)).toMatchObject({ kind: 'earlierSend', outcome: 'sent', verdict: 'superseded' });
    budget.end('a');
    expect(budget.ask('c', { job: 'x' })).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
    budget.end('b');
    expect(budget.granted()).toEqual(['c']);
  });

  it('does not know whether it has the turn if the budget learned of its send while it counted', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.report('a', 'sent');
    expect(budget.ask('a', afterReset)).toMatchObject({ kind: 'earlierSend', verdict: 'superseded' });
  });

  it('does not take the turn if its message was refused', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.report('a', 'limited');
    budget.book([]);
    budget.resume();
    budget.ask('a', afterReset);
    expect(budget.ask('b', { job: 'a' })).toMatchObject({ kind: 'granted' });
  });

  it('learns of the later send although an earlier run reports its own refusal again', () => {
    const budget = new TestBudget();
    const refusal = { runId: 'first', sendNumber: 1, retryAfterMs: SECOND };
    budget.ask('a', { runId: 'first' });
    budget.report('a', 'limited', refusal);
    // After a 429, the next send waits until the pause is over.
    budget.advance(10 * MINUTE);
    budget.send('a', { sendNumber: 2 });
    budget.advance(MINUTE);
    budget.report('a', 'limited', refusal);
    expect(budget.ask('a', { ...afterReset, sendNumber: 2 })).toMatchObject({ kind: 'earlierSend', sendNumber: 2 });
  });

  it('learns of the later send also from a budget that has counted since', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([running('a')]);
    budget.report('a', 'limited', { runId: 'first', sendNumber: 1, retryAfterMs: SECOND });
    expect(budget.ask('a', { ...afterReset, sendNumber: 2 })).toMatchObject({ kind: 'earlierSend', sendNumber: 2 });
  });
});
