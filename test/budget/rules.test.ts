import { describe, expect, it } from 'vitest';
import { busyJob, Desk, followUp, HELD, HOUR, listed, MINUTE, names, OVER, resetRun, SECOND, T0 } from './support.js';

describe('a window that changes', () => {
  it('counts nothing for a shorter one', () => {
    const desk = new Desk();
    desk.setLimit({ windowMs: MINUTE });
    expect(desk.state.isCounting).toBe(false);
  });

  it('recalls no send that was not made, and an unknown one from its last byte', () => {
    const desk = new Desk({ windowMs: MINUTE });
    desk.ask('a');
    desk.settle('a', 'notSent');
    desk.ask('b');
    desk.settle('b', 'unknown');
    desk.wait(OVER + 2 * MINUTE);
    desk.setLimit({ windowMs: HOUR });
    expect(desk.budget.slotEnds()).toEqual([T0 + OVER + HELD]);
  });

  it('holds a send once', () => {
    const desk = new Desk();
    desk.send('a');
    desk.setLimit({ windowMs: 2 * HOUR });
    expect(desk.budget.slotEnds()).toHaveLength(1);
  });
});

describe('the next change', () => {
  it('is nothing if nobody waits, or if no time changes anything', () => {
    const desk = new Desk({ limit: 1 });
    desk.send('a');
    expect(desk.budget.nextChangeMs(desk.nowMs)).toBeUndefined();
    const closed = new Desk({ limit: 0 });
    closed.ask('a');
    expect(closed.budget.nextChangeMs(closed.nowMs)).toBeUndefined();
  });
});

describe('a count', () => {
  it('believes that the latest send it knows was not the last: a reset run is told so once', () => {
    const desk = new Desk();
    desk.ask('a');
    desk.settle('a', 'limited', {});
    desk.wait(MINUTE);
    desk.ask('a', { sendNumber: 2 });
    desk.wait(OVER);
    desk.book(listed(['a']));
    expect(desk.ask('a', { ...resetRun, sendNumber: 3 })).toMatchObject({ kind: 'known', outcome: 'unknown' });
  });

  it('takes the send for made for which a follow-up stood in line', () => {
    const desk = new Desk();
    desk.ask('a');
    desk.settle('a', 'limited');
    desk.ask('a', { sendNumber: 2 });
    desk.book(listed(['a'], true));
    expect(desk.ask('a')).toMatchObject({ kind: 'known', sendNumber: 2, outcome: 'unknown' });
  });

  it('gives the turn of one that has ended an end', () => {
    const desk = busyJob();
    const workflowId = followUp('a', 'x');
    desk.state.known = {};
    desk.book([{ workflowId, isRunning: false }]);
    const [afterMs, granted] = desk.nextGrants();
    expect(granted).toEqual(['b']);
    expect(afterMs).toBeLessThan(5 * MINUTE);
  });

  it('does not take back the turn of one whose end was heard', () => {
    const desk = new Desk();
    desk.send('a', { job: 'x' });
    desk.end('a');
    desk.book([{ workflowId: followUp('a', 'x'), isRunning: false }]);
    expect(desk.ask('b', { job: 'x' }).kind).toBe('granted');
  });

  it('finds no evidence for another message of an id that is used again', () => {
    const desk = new Desk();
    desk.book(listed(['a']));
    expect(desk.ask('a', { messageTag: 'other' })).toMatchObject({ kind: 'known', isLatest: false });
  });
});

describe('a turn that is kept', () => {
  it('is kept as long as its follow-up said, also if a message does not find it', () => {
    const desk = busyJob();
    desk.end('a', { turnUntilMs: T0 + 30 * MINUTE });
    desk.told();
    desk.miss([{ workflowId: followUp('a', 'x') }]);
    expect(desk.nextGrants()).toEqual([30 * MINUTE, ['b']]);
  });
});

describe('a turn that went on', () => {
  it('is not taken back by a reset run of the one that had it before', () => {
    const desk = new Desk();
    desk.send('a', { job: 'x' });
    desk.end('a');
    desk.send('b', { job: 'x' });
    expect(desk.ask('a', { ...resetRun })).toMatchObject({ kind: 'known', isLatest: false });
    desk.ask('c', { job: 'x' });
    desk.told();
    desk.end('b');
    expect(desk.granted()).toEqual(['c']);
  });
});

describe('refusals', () => {
  it('pause until the latest Retry-After', () => {
    const desk = new Desk();
    desk.askAll(['a', 'b']);
    desk.settle('a', 'limited', { retryAfterMs: 2 * MINUTE });
    desk.settle('b', 'limited', { retryAfterMs: SECOND });
    desk.ask('c');
    desk.told();
    expect(desk.nextGrants()).toEqual([2 * MINUTE, ['c']]);
  });

  it('raise the learned limit if more is accepted without a probe', () => {
    const desk = new Desk({ limit: 20 });
    desk.askAll(names('under-way', 5));
    for (const name of names('under-way', 3)) desk.settle(name);
    desk.ask('x');
    desk.settle('x', 'limited');
    expect(desk.budget.limit).toBe(3);
    for (const name of ['under-way3', 'under-way4']) desk.settle(name);
    expect(desk.budget.limit).toBe(5);
  });
});
