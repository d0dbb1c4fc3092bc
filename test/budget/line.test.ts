import { describe, expect, it } from 'vitest';
import type { AskReply } from '../../src/protocol/index.js';
import { MINUTE } from '../support/times.js';
import { followUp, HELD, names, running, T0, TestBudget } from './support.js';

const batch = { lane: 'batch' } as const;
/** The run began after those of the others. */
const startedLater = { startedAtMs: T0 + 1 };
/** So many replies of the same kind. */
const times = (count: number, kind: AskReply['kind']) => Array<AskReply['kind']>(count).fill(kind);

describe('the interactive lane', () => {
  it('has a reserve of slots that the batch lane leaves free', () => {
    const budget = new TestBudget({ limit: 5, reserve: 2 });
    expect(budget.askAll(names('b', 4), batch)).toEqual([...times(3, 'granted'), 'waiting']);
    expect(budget.askAll(names('i', 3))).toEqual([...times(2, 'granted'), 'waiting']);
  });

  it('has a smaller reserve if the worker allows only a lower limit', () => {
    const budget = new TestBudget({ limit: 10, reserve: 5 });
    expect(budget.askAll(names('b', 3), { ...batch, maxLimit: 4 })).toEqual([...times(2, 'granted'), 'waiting']);
    expect(budget.askAll(names('i', 3), { maxLimit: 4 })).toEqual([...times(2, 'granted'), 'waiting']);
  });

  it('is granted a send although many batch follow-ups to the same job wait for a slot', () => {
    const budget = new TestBudget({ limit: 2, reserve: 2 });
    expect(budget.askAll(names('b', 10), { ...batch, job: 'x' })).toEqual(times(10, 'waiting'));
    expect(budget.ask('i', { job: 'x' })).toMatchObject({ kind: 'granted' });
  });

  it('leaves every tenth grant to the batch lane', () => {
    const budget = new TestBudget({ limit: 0 });
    budget.askAll(names('b', 3), batch);
    budget.askAll(names('i', 30));
    budget.setLimit({ limit: 100 });
    const first = budget.granted();
    expect(first).toEqual([...names('i', 9), 'b0']);
    for (const name of first) budget.report(name);
    expect(budget.granted()).toEqual([...names('i', 18).slice(9), 'b1']);
  });
});

describe('a follow-up in line', () => {
  it('is granted what its latest ask says', () => {
    const budget = new TestBudget({ limit: 0, reserve: 1 });
    budget.ask('a', batch);
    budget.ask('a', { runId: 'new-run', sendNumber: 3, lane: 'interactive', leaseMs: 7, drainMs: 8 });
    budget.setLimit({ limit: 1 });
    expect(budget.granted()).toEqual(['a']);
    expect(budget.ask('a')).toMatchObject({
      ...{ kind: 'granted', runId: 'new-run', sendNumber: 3, leaseMs: 7, overAtMs: T0 + 15 },
    });
  });

  it('waits for its job behind another one of the same job and lane', () => {
    const budget = new TestBudget({ limit: 0 });
    budget.ask('a', { job: 'x' });
    expect(budget.ask('b', { job: 'x' })).toMatchObject({ kind: 'waiting', reason: 'job-busy', position: 0 });
  });

  it('waits for a slot beside one of the same job in the other lane', () => {
    const budget = new TestBudget({ limit: 0 });
    budget.ask('a', { job: 'x' });
    expect(budget.ask('b', { ...batch, job: 'x' })).toMatchObject({ kind: 'waiting', reason: 'slot', position: 2 });
  });

  it('has a position that does not count those that wait for a job', () => {
    const budget = new TestBudget({ limit: 0 });
    budget.ask('a', { job: 'x' });
    budget.ask('b', { job: 'x' });
    expect(budget.ask('c')).toMatchObject({ kind: 'waiting', reason: 'slot', position: 2 });
  });

  it('has a position before those of the batch lane', () => {
    const budget = new TestBudget({ limit: 0 });
    budget.ask('b', batch);
    expect(budget.ask('i')).toMatchObject({ kind: 'waiting', reason: 'slot', position: 1 });
  });
});

describe('a budget with a bounded line', () => {
  it('replies "full" if all places of a job and lane are taken', () => {
    const budget = new TestBudget({ limit: 0, capacity: { total: 20, forJob: 10 } });
    expect(budget.askAll(names('a', 10), { ...batch, job: 'x' })).toEqual(times(10, 'waiting'));
    expect(budget.ask('next', { ...batch, job: 'x' })).toMatchObject({
      ...{ kind: 'full', reason: 'job-busy' },
    });
  });

  it('has a place in the interactive lane although all of the job in the batch lane are taken', () => {
    const budget = new TestBudget({ limit: 0, capacity: { total: 20, forJob: 10 } });
    expect(budget.askAll(names('a', 10), { ...batch, job: 'x' })).toEqual(times(10, 'waiting'));
    expect(budget.ask('i', { job: 'x' })).toMatchObject({ kind: 'waiting' });
  });

  it('keeps one place in ten for the interactive lane', () => {
    const budget = new TestBudget({ limit: 0, capacity: { total: 20, forJob: 10 } });
    expect(budget.askAll(names('b', 18), batch)).toEqual(times(18, 'waiting'));
    expect(budget.ask('next', batch)).toMatchObject({ kind: 'full', reason: 'queue-full' });
    expect(budget.askAll(names('i', 2))).toEqual(times(2, 'waiting'));
  });

  it('replies "full" if all places of the line are taken', () => {
    const budget = new TestBudget({ limit: 0, capacity: { total: 20, forJob: 10 } });
    expect(budget.askAll(names('a', 20))).toEqual(times(20, 'waiting'));
    expect(budget.ask('next')).toMatchObject({ kind: 'full', reason: 'queue-full' });
    expect(budget.line()).toEqual(names('a', 20));
  });

  it('grants at once what can be sent although all places are taken', () => {
    const budget = new TestBudget({ capacity: { total: 1, forJob: 10 } });
    budget.send('owner', { job: 'x' });
    expect(budget.ask('a', { job: 'x' })).toMatchObject({ kind: 'waiting' });
    expect(budget.ask('b', { job: 'x' })).toMatchObject({ kind: 'full' });
    expect(budget.ask('sendable')).toMatchObject({ kind: 'granted' });
  });

  it('grants at once what can be sent although all places of another job are taken', () => {
    const budget = new TestBudget({ capacity: { total: 20, forJob: 10 } });
    budget.send('owner', { job: 'x' });
    expect(budget.askAll(names('a', 11), { job: 'x' })).toEqual([...times(10, 'waiting'), 'full']);
    expect(budget.ask('sendable')).toMatchObject({ kind: 'granted' });
  });

  it('always has a place for the follow-up that has the turn of the job', () => {
    const budget = new TestBudget({ limit: 1, isCounting: true });
    budget.book([running('owner', 'x')]);
    expect(budget.askAll(names('a', 10), { job: 'x' })).toEqual(times(10, 'waiting'));
    expect(budget.ask('owner', { job: 'x', sendNumber: 2 })).toMatchObject({
      ...{ kind: 'waiting', reason: 'slot', position: 1 },
    });
  });

  it('has a place for the follow-up that has the turn also if its send is forgotten', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.send('owner', { job: 'x' });
    budget.state.latestSends = {};
    expect(budget.askAll(names('a', 10), { job: 'x' })).toEqual(times(10, 'waiting'));
    expect(budget.ask('owner', { sendNumber: 2 })).toMatchObject({ kind: 'waiting', reason: 'slot', position: 1 });
  });

  it('always has a place for a follow-up that was granted a send before', () => {
    const budget = new TestBudget({ limit: 1, capacity: { total: 3, forJob: 10 } });
    budget.ask('a');
    expect(budget.askAll(names('b', 3), startedLater)).toEqual(times(3, 'waiting'));
    budget.report('a', 'rejected');
    expect(budget.ask('c')).toMatchObject({ kind: 'full' });
    expect(budget.ask('a', { sendNumber: 2 })).toMatchObject({ kind: 'waiting', position: 1 });
  });
});

describe('the expected time of a send', () => {
  /** A budget whose three slots are free again a minute after each other. */
  function newFullBudget(): TestBudget {
    const budget = new TestBudget({ limit: 3, reserve: 1 });
    for (const name of names('a', 3)) {
      budget.send(name);
      budget.advance(MINUTE);
    }
    return budget;
  }

  it('is when the first slot is free for the first in line', () => {
    const budget = newFullBudget();
    expect(budget.ask('i')).toMatchObject({ kind: 'waiting', position: 1, expectedAtMs: T0 + HELD });
  });

  it('counts those before it and the reserve', () => {
    const budget = newFullBudget();
    budget.ask('i');
    expect(budget.ask('b', batch)).toMatchObject({
      ...{ kind: 'waiting', position: 2, expectedAtMs: T0 + 2 * MINUTE + HELD },
    });
  });

  it('is when the last slot is free if as many wait as there are slots', () => {
    const budget = newFullBudget();
    budget.askAll(names('i', 2));
    expect(budget.ask('last')).toMatchObject({ position: 3, expectedAtMs: T0 + 2 * MINUTE + HELD });
  });

  it('is not known if more wait than there are slots', () => {
    const budget = newFullBudget();
    budget.askAll(names('i', 3));
    const reply = budget.ask('last');
    expect(reply).toMatchObject({ kind: 'waiting', position: 4 });
    expect(reply).not.toHaveProperty('expectedAtMs');
  });

  it('is not known if the follow-up waits for its job', () => {
    const budget = newFullBudget();
    const reply = budget.ask('b', { job: 'a0' });
    expect(reply).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
    expect(reply).not.toHaveProperty('expectedAtMs');
  });
});

describe('signals to follow-ups in line', () => {
  it('tell of a grant although an ask that may be a late copy gets it, too', () => {
    const budget = new TestBudget({ limit: 0 });
    budget.ask('a');
    budget.call(({ state }) => Object.assign(state.settings, { limit: 1 }));
    expect(budget.ask('a')).toMatchObject({ kind: 'granted' });
    expect(budget.signals()).toMatchObject([{ workflowId: followUp('a'), reply: { kind: 'granted' } }]);
  });

  it('leave no slot in use for those that were closed during a pause', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.pause();
    budget.askAll([...names('closed', 30), 'alive']);
    budget.resume();
    for (let signals = budget.signals(); signals.length > 0; signals = budget.signals()) {
      budget.noteClosed(signals.filter(({ workflowId }) => workflowId !== followUp('alive')));
    }
    expect(budget.state).toMatchObject({ waiters: [], spent: [], grants: [{ workflowId: followUp('alive') }] });
  });

  it('report a new reason to wait to the first twenty', () => {
    const budget = new TestBudget({ limit: 0 });
    budget.askAll(names('a', 30));
    budget.pause();
    const signals = budget.signals();
    expect(signals.map(({ workflowId }) => workflowId)).toEqual(names('a', 20).map((name) => followUp(name)));
    expect(signals[0]?.reply).toMatchObject({
      ...{ kind: 'waiting', reason: 'paused', runId: 'run-of-a0', sendNumber: 1 },
    });
  });

  it('report a reason to wait only once', () => {
    const budget = new TestBudget({ limit: 0 });
    budget.askAll(names('a', 30));
    budget.pause();
    expect(budget.signals()).toHaveLength(20);
    budget.advance(60 * MINUTE);
    expect(budget.signals()).toEqual([]);
  });
});
