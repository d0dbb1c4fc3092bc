import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE } from '../support/times.js';
import { afterReset, followUp, jobAtEnd, LEASE, OVER, SETTLE, T0, TestBudget } from './support.js';

describe('the turn of a job', () => {
  it('is kept until the time that is reported with an end in doubt', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    budget.end('a', { turnUntilMs: T0 + 5 * MINUTE });
    expect(budget.nextGrants()).toEqual([5 * MINUTE, ['b']]);
  });

  it('is kept for four hours at most, whatever time is reported', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    budget.end('a', { turnUntilMs: T0 + 20 * HOUR });
    expect(budget.nextGrants()).toEqual([4 * HOUR, ['b']]);
  });

  it('is kept until the reported time although a wake-up does not find the follow-up', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    budget.end('a', { turnUntilMs: T0 + 30 * MINUTE });
    budget.noteClosed([{ workflowId: followUp('a', 'x') }]);
    expect(budget.nextGrants()).toEqual([30 * MINUTE, ['b']]);
  });

  it('ends with a report of how the job looked, which each later grant repeats', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.end('a', { jobAtEnd });
    expect(budget.ask('b', { job: 'x' })).toMatchObject({ kind: 'granted', previousEnd: jobAtEnd });
    budget.end('b');
    expect(budget.ask('c', { job: 'x' })).toMatchObject({ kind: 'granted', previousEnd: jobAtEnd });
  });

  it.each(['notSent', 'rejected'] as const)(
    'is free once the outcome of its send is "%s", although the grant is over by then',
    (outcome) => {
      const budget = new TestBudget();
      budget.ask('a', { job: 'x' });
      budget.ask('b', { job: 'x' });
      budget.advance(OVER);
      budget.report('a', outcome);
      expect(budget.granted()).toEqual(['b']);
    },
  );

  it('is free once the outcome of its send is "limited" and the pause that follows is over', () => {
    const budget = new TestBudget();
    budget.ask('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    budget.advance(OVER);
    budget.report('a', 'limited');
    expect(budget.granted()).toEqual([]);
    budget.resume();
    expect(budget.granted()).toEqual(['b']);
  });

  it('is kept until no byte can arrive and the settle time is over if another run reports its end', () => {
    const budget = new TestBudget();
    budget.ask('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    budget.end('a', { runId: 'another-run' });
    expect(budget.nextGrants()).toEqual([OVER + SETTLE, ['b']]);
  });

  it('is kept until no byte can arrive and the settle time is over if a wake-up finds nobody', () => {
    const budget = new TestBudget();
    budget.ask('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    budget.noteClosed([{ workflowId: followUp('a', 'x') }]);
    expect(budget.nextGrants()).toEqual([OVER + SETTLE, ['b']]);
  });

  it('ends at once if another run reports how the job looked', () => {
    const budget = new TestBudget();
    budget.ask('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    budget.end('a', { runId: 'another-run', jobAtEnd });
    expect(budget.granted()).toEqual(['b']);
  });

  it('does not end when a run that was reset reports its end late', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    budget.ask('a', afterReset);
    budget.end('a', { runId: 'run-of-a', jobAtEnd });
    expect(budget.granted()).toEqual([]);
    budget.end('a', { jobAtEnd });
    expect(budget.granted()).toEqual(['b']);
  });

  it('stays where it is if a follow-up reports a send that the budget did not grant', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    budget.report('stranger', 'sent', { job: 'x' });
    budget.end('stranger', { job: 'x' });
    expect(budget.granted()).toEqual([]);
  });

  it.each(['2', '__proto__', 'constructor', 'toString'])(
    'belongs to its job alone if the id of the job is "%s"',
    (job) => {
      const budget = new TestBudget();
      budget.send('a', { job });
      expect(budget.ask('b', { job })).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
      expect(budget.ask('c', { job: 'another' })).toMatchObject({ kind: 'granted' });
    },
  );
});

describe('a follow-up whose job others wait for', () => {
  it('is woken when the first of them asks, and not before', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.ask('other');
    expect(budget.signals()).toEqual([]);
    budget.ask('b', { job: 'a' });
    expect(budget.signals()).toEqual([{ workflowId: followUp('a') }]);
  });

  it('is woken every ten minutes, however many of them ask', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.ask('b', { job: 'a' });
    expect(budget.woken()).toEqual(['a']);
    budget.advance(4 * MINUTE);
    budget.ask('c', { job: 'a' });
    budget.advance(4 * MINUTE);
    expect(budget.signals()).toEqual([]);
    budget.ask('d', { job: 'a' });
    budget.advance(4 * MINUTE);
    expect(budget.signals()).toEqual([{ workflowId: followUp('a') }]);
    expect(budget.nextChangeInMs()).toBe(10 * MINUTE);
  });

  it('leaves its job to them a settle time after a wake-up does not find it', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    budget.advance(LEASE + OVER);
    const signals = budget.signals();
    expect(signals).toEqual([{ workflowId: followUp('a', 'x') }]);
    budget.noteClosed(signals);
    expect(budget.nextGrants()).toEqual([SETTLE, ['b']]);
  });
});

describe('a follow-up that has the turn of its job and waits for a slot', () => {
  it('is not woken: nobody waits for its turn', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.ask('a');
    budget.report('a', 'unknown');
    expect(budget.ask('a', { sendNumber: 2 })).toMatchObject({ kind: 'waiting', reason: 'slot' });
    expect(budget.signals()).toEqual([]);
  });
});

describe('a follow-up that is closed', () => {
  it('leaves its place in line with the report of its end', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.askAll(['a', 'b', 'c']);
    budget.end('b');
    expect(budget.line()).toEqual(['c']);
    budget.end('a');
    expect(budget.granted()).toEqual(['c']);
  });

  it('returns a grant that it never used with the report of its end', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.askAll(['a', 'b']);
    budget.end('a');
    expect(budget.granted()).toEqual(['b']);
  });

  it('keeps the slot of a grant that an ask has received, if a signal with it finds nobody', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.askAll(['a', 'b']);
    budget.report('a', 'notSent');
    const signals = budget.signals();
    expect(signals).toMatchObject([{ workflowId: followUp('b'), reply: { kind: 'granted' } }]);
    expect(budget.ask('b')).toMatchObject({ kind: 'granted' });
    budget.noteClosed(signals);
    expect(budget.usedSlots()).toBe(1);
  });
});

// After a reset of the budget, an ask may be in line again although its send is over.
describe('a place in line', () => {
  it('is lost when the outcome of its send is reported', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.ask('a');
    budget.report('a', 'sent');
    expect(budget.line()).toEqual([]);
  });

  it('is lost when its run reports its end', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.ask('a');
    budget.end('a');
    expect(budget.line()).toEqual([]);
  });

  it('is lost when the outcome of a later send is reported', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.ask('a');
    budget.report('a', 'limited', { sendNumber: 3 });
    expect(budget.line()).toEqual([]);
  });

  it('is kept when the outcome of an earlier send is reported', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.ask('a', { sendNumber: 2 });
    budget.report('a', 'limited', { sendNumber: 1 });
    expect(budget.line()).toEqual(['a']);
  });

  it('is kept when another run reports an outcome', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.ask('a');
    budget.report('a', 'limited', { runId: 'old-run' });
    expect(budget.line()).toEqual(['a']);
  });

  it('is kept if a wake-up that was sent before the ask finds nobody', () => {
    const budget = new TestBudget({ limit: 0 });
    budget.call((budget) => budget.wake([followUp('a')]));
    const signals = budget.signals();
    expect(signals).toEqual([{ workflowId: followUp('a') }]);
    budget.ask('a', { runId: 'second-run' });
    budget.noteClosed(signals);
    budget.setLimit({ limit: 1 });
    expect(budget.granted()).toEqual(['a']);
  });
});
