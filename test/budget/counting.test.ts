import { describe, expect, it } from 'vitest';
import {
  busyJob,
  Desk,
  followUp,
  HELD,
  HOUR,
  lastTurn,
  LEASE,
  listed,
  MINUTE,
  names,
  OVER,
  resetRun,
  SECOND,
  SETTLE,
} from './support.js';

const ofJob = (name: string, isRunning: boolean) => ({ workflowId: followUp(name, 'x'), isRunning });

/** Once more, after a reset. */
function count(desk: Desk, sends: readonly string[], isRunning = false): void {
  desk.state.isCounting = true;
  desk.book(listed(sends, isRunning));
}

describe('a budget that counts', () => {
  it('grants nothing, and says why (review 12)', () => {
    const desk = new Desk({ counts: true });
    expect(desk.ask('a')).toMatchObject({ kind: 'waiting', reason: 'counting', position: 1 });
    desk.wait(24 * HOUR);
    expect(desk.granted()).toEqual([]);
  });

  it('books each send of the list as unknown and as made now, with its id, then grants the rest (review 12)', () => {
    const desk = new Desk({ counts: true, limit: 4 });
    desk.askAll(names('b', 5));
    desk.wait(MINUTE);
    desk.book(listed(['a1', 'a2']), 1);
    expect(desk.granted()).toEqual(['b0']);
    const booked = { settledAtMs: desk.nowMs, outcome: 'unknown' };
    expect(desk.state.lastSends.slice(0, 2)).toMatchObject([
      { workflowId: followUp('a1'), ...booked },
      { workflowId: followUp('a2'), ...booked },
    ]);
    desk.settle('b0');
    expect(desk.nextGrants()).toEqual([HELD, ['b1', 'b2', 'b3', 'b4']]);
  });

  it('lists what it books as of now, and holds its slot until nothing of it can still arrive', () => {
    const desk = new Desk({ counts: true });
    desk.budget.book(desk.nowMs, listed(['a']), { drainMs: MINUTE });
    expect(desk.state.lastSends).toMatchObject([{ grantedAtMs: desk.nowMs, settledAtMs: desk.nowMs }]);
    const [end = 0] = desk.budget.slotEnds();
    expect(end).toBeGreaterThanOrEqual(desk.nowMs + MINUTE + HOUR);
  });

  it('knows those whom it books, once each, so that their ids are not sent again (review 4, 11, simulation F9)', () => {
    const desk = new Desk({ counts: true });
    desk.book(listed(['a']));
    expect(desk.ask('a', resetRun)).toMatchObject({ kind: 'known', outcome: 'unknown', isSameMessage: false });
    expect(desk.budget.slotEnds()).toHaveLength(1);
  });

  it('does not let a run that was reset send again, whatever number its send has (review N3)', () => {
    const desk = new Desk({ counts: true });
    desk.book(listed(['a'], true));
    expect(desk.ask('a', { ...resetRun, sendNumber: 2 })).toMatchObject({ kind: 'known', outcome: 'unknown' });
  });

  it('books a send that it did not grant when it hears of it, from its answer, once (review N3, N5)', () => {
    const desk = new Desk({ counts: true });
    desk.wait(SECOND);
    const atMs = desk.nowMs - 300;
    desk.settle('a', 'sent', { atMs });
    desk.settle('a', 'sent', { atMs });
    desk.settle('b', 'notSent');
    desk.book([]);
    expect(desk.budget.slotEnds()).toEqual([atMs + HELD]);
    expect(desk.ask('c', { job: 'a' })).toMatchObject({ reason: 'job-busy' });
    expect(desk.ask('d', { job: 'b' }).kind).toBe('granted');
    expect(desk.ask('a', resetRun)).toMatchObject({ kind: 'known', grantedTo: 'run-of-a', outcome: 'sent' });
  });

  it('takes no send of before a reset for the last one of its job', () => {
    const desk = new Desk();
    desk.send('a', { job: 'x' });
    desk.end('a');
    desk.wait(HOUR);
    desk.state.rememberedSinceMs = desk.nowMs;
    count(desk, []);
    expect(desk.ask('a', resetRun)).toMatchObject({ kind: 'known', outcome: 'sent', isLatest: false });
  });

  it('does not take an old send that it hears of late for the last one of its job', () => {
    const desk = new Desk();
    const atMs = desk.nowMs;
    desk.wait(HOUR);
    desk.send('new', { job: 'x' });
    desk.end('new', { workflowId: followUp('new', 'x') });
    desk.settle('old', 'sent', { atMs, workflowId: followUp('old', 'x') });
    expect(desk.ask('old', { job: 'x', ...resetRun })).toMatchObject({ kind: 'known', isLatest: false });
    expect(desk.ask('new', { job: 'x', ...resetRun })).toMatchObject({ isLatest: true });
  });

  it.each(['sent', 'rejected'] as const)('does not book what it remembers as "%s" (review N3)', (outcome) => {
    const desk = new Desk();
    desk.ask('a');
    desk.settle('a', outcome);
    count(desk, ['a']);
    expect(desk.budget.slotEnds()).toHaveLength(1);
  });

  it.each(['limited', 'unauthorized', 'payment', 'notSent', 'unknown'] as const)(
    'books what it remembers as "%s": the next send may be forgotten (review N3)',
    (outcome) => {
      const desk = new Desk();
      desk.ask('a');
      desk.settle('a', outcome);
      desk.wait(OVER + MINUTE);
      count(desk, ['a']);
      expect(desk.budget.slotEnds()).toContain(desk.nowMs + HELD);
      expect(desk.ask('a', resetRun)).toMatchObject({ kind: 'known', outcome: 'unknown' });
    },
  );

  it('books nothing beside a grant that may be under way, but beside one that is over (review N3)', () => {
    const desk = new Desk();
    desk.ask('a');
    count(desk, ['a']);
    expect(desk.budget.slotEnds()).toHaveLength(1);
    desk.nowMs += 30 * MINUTE;
    count(desk, ['a']);
    expect(desk.budget.slotEnds()).toContain(desk.nowMs + HELD);
  });

  it('tells each run that may have sent that it may have sent more often, not only the first', () => {
    const desk = new Desk({ counts: true });
    desk.book([{ workflowId: followUp('a'), isRunning: true }]);
    expect(desk.ask('a', { ...resetRun, runId: 'second' })).toMatchObject({ kind: 'known', sendNumber: 1 });
    expect(desk.ask('a', { ...resetRun, runId: 'third', sendNumber: 2 })).toMatchObject({
      kind: 'known',
      sendNumber: 2,
    });
    expect(desk.ask('a', { sendNumber: 3 })).toMatchObject({ kind: 'granted', runId: 'third' });
  });

  it.each(['ends', 'was reset to the end of a refused send'])(
    'counts a grant of before a reset, whose end is lost: its follow-up %s',
    (what) => {
      const desk = new Desk({ limit: 1 });
      // Bytes may arrive for longer than the count takes.
      desk.ask('a', { drainMs: 2 * MINUTE });
      desk.wait(LEASE);
      count(desk, ['a'], true);
      if (what === 'ends') desk.end('a');
      else desk.settle('a', 'limited');
      expect(desk.ask('b').kind).toBe('waiting');
      expect(desk.ask('a', { ...resetRun, sendNumber: 2 })).toMatchObject({ kind: 'known', outcome: 'unknown' });
    },
  );

  it('wakes everybody whom it takes out of the line: a key may have been used again', () => {
    const desk = new Desk({ counts: true });
    expect(desk.ask('a')).toMatchObject({ reason: 'counting' });
    desk.told();
    desk.book(listed(['a']));
    expect(desk.told()).toEqual([{ workflowId: followUp('a') }]);
  });

  it('gives a job to whoever runs, and one that is closed only for the settle time (review N9)', () => {
    const desk = new Desk({ counts: true });
    desk.book([ofJob('old', false), ofJob('new', true), ...listed(['closed'])]);
    desk.ask('behind-new', { job: 'x' });
    desk.ask('behind-closed', { job: 'closed' });
    expect(desk.ask('closed', resetRun)).toMatchObject({ isLatest: true });
    desk.end('closed', { turnUntilMs: desk.nowMs + SETTLE });
    expect(desk.nextGrants()).toEqual([SETTLE, ['behind-closed']]);
    desk.end('new', { workflowId: followUp('new', 'x'), lastTurn });
    expect(desk.granted()).toEqual(['behind-new']);
  });

  it('gives it also to one that runs whose send it has heard of, before a grant of a time that a reset brought back', () => {
    const desk = new Desk();
    desk.ask('old', { job: 'x' });
    desk.settle('new', 'sent', { workflowId: followUp('new', 'x') });
    desk.book([ofJob('new', true)]);
    desk.settle('old', 'notSent');
    expect(desk.ask('next', { job: 'x' })).toMatchObject({ reason: 'job-busy' });
  });

  it('does not guess which of two sends to a job was the last: either may have been reset', () => {
    const desk = new Desk({ counts: true });
    desk.settle('heard', 'sent', { workflowId: followUp('heard', 'y') });
    desk.book([
      ofJob('old', false),
      ofJob('new', true),
      { ...ofJob('closed', false), workflowId: followUp('closed', 'y') },
    ]);
    for (const name of ['old', 'new']) {
      expect(desk.ask(name, { job: 'x', ...resetRun })).toMatchObject({ kind: 'known', isLatest: false });
    }
    for (const name of ['heard', 'closed']) {
      expect(desk.ask(name, { job: 'y', ...resetRun })).toMatchObject({ kind: 'known', isLatest: false });
    }
    // Who was heard of has not ended.
    expect(desk.ask('next', { job: 'y' })).toMatchObject({ reason: 'job-busy' });
    desk.wait(SETTLE);
    expect(desk.granted()).toEqual([]);
  });

  it('keeps how a job looked at the end of the turn before (review N9)', () => {
    const desk = new Desk();
    desk.send('a', { job: 'x' });
    desk.end('a', { lastTurn });
    desk.book([ofJob('b', false)]);
    desk.wait(SETTLE);
    expect(desk.ask('c', { job: 'x' })).toMatchObject({ kind: 'granted', lastTurn });
  });

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

  it('takes no place from a run that was started after a wake was on its way to the one before', () => {
    const desk = new Desk({ limit: 0 });
    desk.call((budget) => budget.wake([followUp('a')]));
    const wakes = desk.told();
    desk.ask('a', { runId: 'second' });
    desk.miss(wakes);
    desk.setLimit({ limit: 1 });
    expect(desk.granted()).toEqual(['a']);
  });

  it('books no send again that it has heard of', () => {
    const desk = new Desk();
    desk.send('a');
    desk.book(listed(['a'], true));
    expect(desk.budget.slotEnds()).toHaveLength(1);
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
