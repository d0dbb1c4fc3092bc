import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import type { Refusal } from '../../src/contract/index.js';
import { HOUR, MINUTE, SECOND } from '../support/times.js';
import { followUp, HELD, LEASE, names, T0, TestBudget } from './support.js';

/** The service has just refused the message of `first`, and these follow-ups wait. */
function pausedBudget(waiting: readonly string[], reason: Exclude<Refusal, 'outage'> = 'credentials'): TestBudget {
  const budget = new TestBudget({ limit: 100 });
  budget.ask('first');
  budget.report('first', reason);
  budget.askAll(waiting);
  budget.signals();
  return budget;
}

describe('a pause of the project', () => {
  it('begins when the service refuses a message', () => {
    const budget = pausedBudget([]);
    expect(budget.ask('a')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
  });

  it('begins with a refusal that is reported after the send is over', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.ask('a');
    budget.advance(HELD);
    budget.report('a', 'credentials');
    expect(budget.ask('b')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
  });

  it('does not begin again with a refusal that is reported twice', () => {
    const budget = pausedBudget(['a']);
    expect(budget.nextGrants()).toEqual([SECOND, ['a']]);
    budget.report('a');
    budget.report('first', 'credentials');
    expect(budget.ask('b')).toMatchObject({ kind: 'granted' });
  });

  it('is signalled once to those in line, and not again with a refused probe', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(names('a', 12));
    budget.signals();
    budget.report('a0', 'credentials');
    expect(budget.signals()).toMatchObject([
      { workflowId: followUp('a10'), reply: { kind: 'waiting', reason: 'credentials' } },
      { workflowId: followUp('a11'), reply: { kind: 'waiting', reason: 'credentials' } },
    ]);
    expect(budget.nextGrants()).toEqual([LEASE, ['a11']]);
    budget.report('a11', 'credentials');
    expect(budget.signals()).toEqual([]);
  });

  it('ends with any accepted message after a 402', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(['a', 'b']);
    budget.report('a', 'payment');
    expect(budget.status().paused).toMatchObject({ reasons: ['payment'] });
    budget.report('b');
    expect(budget.state.pace.pause).toBeUndefined();
  });

  it('ends only with an accepted probe after a 429', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(['a', 'b']);
    budget.report('a', 'limited');
    budget.report('b');
    expect(budget.status().paused).toMatchObject({ reasons: ['limited'] });
    budget.ask('c');
    expect(budget.nextGrants()).toEqual([36 * SECOND, ['c']]);
    budget.report('c');
    expect(budget.state.pace.pause).toBeUndefined();
  });

  it('is followed by twice as many sends at once with each accepted message, up to ten', () => {
    const budget = pausedBudget(names('w', 20));
    expect(budget.nextGrants()).toEqual([SECOND, ['w19']]);
    budget.report('w19');
    expect(budget.granted()).toEqual(['w0', 'w1']);
    budget.report('w0');
    expect(budget.granted()).toEqual(['w2', 'w3', 'w4']);
    budget.report('w1');
    expect(budget.granted()).toEqual(['w5', 'w6', 'w7', 'w8', 'w9']);
    budget.report('w2');
    expect(budget.granted()).toEqual(['w10', 'w11', 'w12']);
    budget.report('w3');
    expect(budget.granted()).toEqual(['w13']);
  });
});

describe('the probe of a pause', () => {
  it('is a single message until its outcome is reported', () => {
    const budget = pausedBudget(['a', 'b']);
    expect(budget.nextGrants()).toEqual([SECOND, ['b']]);
    budget.advance(10 * SECOND);
    expect(budget.granted()).toEqual([]);
    expect(budget.ask('c')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
  });

  it('is the last message in line', () => {
    const budget = pausedBudget(['old', 'new']);
    expect(budget.nextGrants()).toEqual([SECOND, ['new']]);
    budget.report('new', 'credentials');
    expect(budget.nextGrants()).toEqual([4 * SECOND, ['old']]);
  });

  it('is an interactive message if there is one', () => {
    const budget = pausedBudget(['a']);
    budget.ask('nightly', { lane: 'batch' });
    expect(budget.nextGrants()).toEqual([SECOND, ['a']]);
    budget.report('a', 'credentials');
    expect(budget.nextGrants()).toEqual([4 * SECOND, ['nightly']]);
  });

  it('is a message that was not refused, even of the batch lane, if there is one', () => {
    const budget = pausedBudget([], 'limited');
    budget.ask('first', { sendNumber: 2 });
    budget.ask('nightly', { lane: 'batch' });
    expect(budget.nextGrants()).toEqual([36 * SECOND, ['nightly']]);
    budget.report('nightly', 'limited');
    expect(budget.nextGrants()).toEqual([144 * SECOND, ['first']]);
  });

  it('is another message if the first one was not sent', () => {
    const budget = pausedBudget(['a', 'b']);
    expect(budget.nextGrants()).toEqual([SECOND, ['b']]);
    budget.report('b', 'notSent');
    expect(budget.granted()).toEqual(['a']);
  });

  it('is another message if the first one has no outcome when its lease is over', () => {
    const budget = pausedBudget(['a', 'b']);
    expect(budget.nextGrants()).toEqual([SECOND, ['b']]);
    expect(budget.nextGrants()).toEqual([LEASE, ['a']]);
  });

  it('is not sent while an operator pauses the project', () => {
    const budget = pausedBudget(['a', 'b']);
    budget.pause();
    budget.advance(HOUR);
    expect(budget.granted()).toEqual([]);
    budget.resume();
    expect(budget.granted()).toEqual(['b']);
  });

  it('is sent at once when an operator resumes the project', () => {
    const budget = pausedBudget(['a', 'b']);
    budget.resume();
    expect(budget.granted()).toEqual(['b']);
    expect(budget.ask('c')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
  });
});

describe('the length of a pause', () => {
  it('begins with a second, and is fourfold after each refused probe, up to ten minutes', () => {
    const budget = pausedBudget(names('w', 7));
    expect(budget.nextGrants()).toEqual([SECOND, ['w6']]);
    budget.report('w6', 'credentials');
    expect(budget.nextGrants()).toEqual([4 * SECOND, ['w5']]);
    budget.report('w5', 'credentials');
    expect(budget.nextGrants()).toEqual([16 * SECOND, ['w4']]);
    budget.report('w4', 'credentials');
    expect(budget.nextGrants()).toEqual([64 * SECOND, ['w3']]);
    budget.report('w3', 'credentials');
    expect(budget.nextGrants()).toEqual([256 * SECOND, ['w2']]);
    budget.report('w2', 'credentials');
    expect(budget.nextGrants()).toEqual([10 * MINUTE, ['w1']]);
    budget.report('w1', 'credentials');
    expect(budget.nextGrants()).toEqual([10 * MINUTE, ['w0']]);
  });

  it('begins with a 120th of the window after a 429, and grows to a sixth of it', () => {
    const budget = new TestBudget({ limit: 1_000, windowMs: 20 * MINUTE });
    budget.ask('first');
    budget.report('first', 'limited');
    budget.askAll(['a', 'b', 'c', 'd']);
    expect(budget.nextGrants()).toEqual([10 * SECOND, ['d']]);
    budget.report('d', 'limited');
    expect(budget.nextGrants()).toEqual([40 * SECOND, ['c']]);
    budget.report('c', 'limited');
    expect(budget.nextGrants()).toEqual([160 * SECOND, ['b']]);
    budget.report('b', 'limited');
    expect(budget.nextGrants()).toEqual([200 * SECOND, ['a']]);
  });

  it('does not grow if the same message is refused again, which waits longer itself', () => {
    const budget = pausedBudget([]);
    budget.ask('first', { sendNumber: 2 });
    expect(budget.nextGrants()).toEqual([30 * SECOND, ['first']]);
    budget.report('first', 'credentials');
    budget.ask('first', { sendNumber: 3 });
    expect(budget.nextGrants()).toEqual([90 * SECOND, ['first']]);
    budget.report('first', 'credentials');
    budget.ask('first', { sendNumber: 4 });
    budget.ask('new');
    expect(budget.nextGrants()).toEqual([SECOND, ['new']]);
  });

  it('ignores the Retry-After of a message that is refused again', () => {
    const budget = pausedBudget([]);
    budget.ask('first', { sendNumber: 2 });
    expect(budget.nextGrants()).toEqual([30 * SECOND, ['first']]);
    budget.report('first', 'credentials', { retryAfterMs: HOUR });
    budget.ask('new');
    expect(budget.nextGrants()).toEqual([SECOND, ['new']]);
  });

  it('does not grow if messages that were under way are refused, too', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(names('a', 11));
    for (const name of names('a', 10)) budget.report(name, 'payment');
    expect(budget.nextGrants()).toEqual([SECOND, ['a10']]);
  });

  const refusals = [
    { statusCode: 401, reason: 'credentials', firstPauseMs: SECOND },
    { statusCode: 429, reason: 'limited', firstPauseMs: 36 * SECOND },
  ] as const;

  // Until a probe gets it, too, it may be for those messages alone.
  it.each(refusals)('ignores the Retry-After of the first messages that get $statusCode', (refusal) => {
    const { reason, firstPauseMs } = refusal;
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(['a', 'b', 'c']);
    budget.report('a', reason, { retryAfterMs: 45 * MINUTE });
    budget.report('b', reason, { retryAfterMs: 45 * MINUTE });
    budget.report('c', reason, { retryAfterMs: SECOND });
    budget.ask('d');
    expect(budget.nextGrants()).toEqual([firstPauseMs, ['d']]);
  });

  it.each(refusals)('follows the Retry-After of a probe that gets $statusCode', ({ reason, firstPauseMs }) => {
    const budget = pausedBudget(['a', 'b'], reason);
    expect(budget.nextGrants()).toEqual([firstPauseMs, ['b']]);
    budget.report('b', reason, { retryAfterMs: 45 * MINUTE });
    expect(budget.nextGrants()).toEqual([45 * MINUTE, ['a']]);
  });
});

describe('a refused read of a job', () => {
  it('pauses the project if it comes before an ask', () => {
    const budget = new TestBudget({ limit: 100 });
    expect(budget.ask('a', { refusal: 'credentials' })).toMatchObject({ kind: 'waiting', reason: 'credentials' });
    expect(budget.ask('b')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
  });

  it('pauses the project if it comes just before a send, whose slot is free again', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.askAll(['a', 'b']);
    budget.report('a', 'notSent', { refusal: 'credentials', retryAfterMs: MINUTE });
    expect(budget.usedSlots()).toBe(1);
    expect(budget.ask('c')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
  });

  it('does not lengthen a pause that has begun', () => {
    const budget = pausedBudget(['a']);
    budget.advance(SECOND / 2);
    budget.ask('b', { refusal: 'credentials' });
    expect(budget.nextGrants()).toEqual([SECOND / 2, ['a']]);
  });

  it('delays its message by its Retry-After', () => {
    const budget = new TestBudget({ limit: 100 });
    const refusedRead = { refusal: 'credentials', statusCode: 401, retryAfterMs: MINUTE } as const;
    budget.ask('a', refusedRead);
    budget.advance(30 * SECOND);
    budget.ask('b', refusedRead);
    expect(budget.nextGrants()).toEqual([30 * SECOND, ['a']]);
  });

  it('counts once if the read before the next ask is refused, too', () => {
    const budget = new TestBudget({ limit: 100 });
    budget.ask('a');
    budget.report('a', 'notSent', { refusal: 'credentials' });
    budget.advance(SECOND);
    budget.ask('a', { sendNumber: 2, refusal: 'credentials' });
    expect(budget.nextGrants()).toEqual([29 * SECOND, ['a']]);
  });
});

describe('a pause in the status', () => {
  it('has a reason, a start and an end', () => {
    const budget = pausedBudget([]);
    expect(budget.status().paused).toEqual({ reasons: ['credentials'], since: iso(T0), until: iso(T0 + SECOND) });
  });

  it('changes by itself at its end although nobody waits', () => {
    const budget = pausedBudget([]);
    expect(budget.nextChangeInMs()).toBe(SECOND);
  });

  it('is over at its end if nobody waits, so that other software may take a slot', () => {
    const budget = pausedBudget([]);
    budget.advance(SECOND);
    expect(budget.status().paused).toBeUndefined();
    expect(budget.take('other', 1)).toMatchObject({ taken: true });
  });

  it('is not over at its end if somebody waits for the outcome of a probe', () => {
    const budget = pausedBudget([]);
    budget.advance(SECOND);
    expect(budget.ask('a')).toMatchObject({ kind: 'granted' });
    expect(budget.ask('b')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
    expect(budget.status().paused).toMatchObject({ reasons: ['credentials'] });
  });

  it('is over at its end if those who wait may not be sent because their jobs are busy', () => {
    const budget = pausedBudget([]);
    budget.ask('busy', { jobIs: 'at-work' });
    budget.end('first');
    budget.advance(HOUR);
    expect(budget.status().paused).toBeUndefined();
    expect(budget.ask('busy', { jobIs: 'at-work' })).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
  });

  it('lasts until a slot is free if the refused messages have used all', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.ask('a');
    budget.report('a', 'credentials');
    budget.ask('a', { sendNumber: 2 });
    budget.advance(10 * MINUTE);
    expect(budget.status().paused).toMatchObject({ reasons: ['credentials'], until: iso(T0 + HELD) });
  });
});
