import { describe, expect, it } from 'vitest';
import type { SendOutcome } from '../../src/contract/budget.js';
import { iso } from '../../src/contract/durations.js';
import type { Waiting } from '../../src/contract/protocol.js';
import { Desk, followUp, HELD, HOUR, LEASE, MARGIN, MINUTE, names, OVER, SECOND, T0 } from './support.js';

describe('a slot', () => {
  it.each<[SendOutcome | 'lost', number]>([
    ['sent', HELD],
    ['rejected', HELD],
    ['limited', HELD],
    ['unauthorized', HELD],
    ['payment', HELD],
    ['notSent', 0],
    ['unknown', OVER + HELD - 300],
    ['lost', OVER + HELD - 300],
  ])('is held after "%s" for %d ms: window and margin, before them lease and drain (review 7)', (outcome, heldMs) => {
    const desk = new Desk({ limit: 1 });
    desk.askAll(['a', 'b']);
    desk.wait(300);
    if (outcome !== 'lost') desk.settle('a', outcome);
    expect(desk.nextGrants()).toEqual([heldMs, ['b']]);
  });

  it('is not freed, and not used again, by a second word about the same send or one before', () => {
    const desk = new Desk();
    desk.ask('a');
    desk.settle('a', 'limited');
    desk.wait(MINUTE);
    desk.ask('a', { sendNumber: 2 });
    desk.settle('a', 'unknown', { sendNumber: 2 });
    desk.settle('a', 'notSent', { sendNumber: 2 });
    desk.settle('a', 'limited', { sendNumber: 1 });
    expect(desk.budget.slotEnds()).toHaveLength(2);
    expect(desk.ask('a', { runId: 'new', mayHaveSent: true })).toMatchObject({ outcome: 'unknown' });
  });

  it('of a send that the budget did not grant is held from when its last byte may arrive', () => {
    const desk = new Desk();
    desk.ask('a');
    desk.settle('stranger', 'unknown');
    expect(desk.budget.slotEnds()).toContain(T0 + OVER - LEASE + HELD);
  });

  it('is used once, whoever else says that it was not, twice or late', () => {
    const desk = new Desk();
    desk.ask('a');
    desk.settle('a', 'notSent', { runId: 'another' });
    desk.settle('a', 'notSent', { sendNumber: 2 });
    desk.wait(OVER);
    for (const outcome of ['sent', 'sent', 'notSent'] as const) desk.settle('a', outcome);
    expect(desk.budget.slotEnds()).toHaveLength(1);
  });

  it('is free again where its follow-up says after the lease that it sent nothing, as after an outage', () => {
    const desk = new Desk({ limit: 2 });
    desk.send('b');
    desk.ask('a');
    desk.wait(OVER + MINUTE);
    expect(desk.budget.slotEnds()).toHaveLength(2);
    desk.settle('a', 'notSent');
    desk.settle('a', 'notSent');
    expect(desk.budget.slotEnds()).toEqual([T0 + HELD]);
  });

  it('is one of at most ten under way; one without an answer is so for its lease', () => {
    const desk = new Desk({ limit: 100 });
    expect(desk.askAll(names('a', 14)).lastIndexOf('granted')).toBe(9);
    desk.settle('a3');
    expect(desk.granted()).toEqual(['a10']);
    expect(desk.nextGrants()).toEqual([LEASE, ['a11', 'a12', 'a13']]);
  });

  it('says for the last 100 sends who spent it, when, and what came of it', () => {
    const desk = new Desk({ limit: 200 });
    desk.ask('open');
    desk.ask('free');
    desk.settle('free', 'notSent');
    for (const name of names('a', 98)) desk.send(name);
    const send = { sendNumber: 1, grantedAtMs: desk.nowMs };
    expect(desk.state.lastSends.slice(0, 3)).toEqual([
      { ...send, workflowId: followUp('open') },
      { ...send, workflowId: followUp('free'), settledAtMs: desk.nowMs, outcome: 'notSent' },
      { ...send, workflowId: followUp('a0'), settledAtMs: desk.nowMs, outcome: 'sent' },
    ]);
  });
});

describe('a clock', () => {
  it('that goes back lets nothing over the limit (G5)', () => {
    const desk = new Desk({ limit: 2 });
    desk.send('a');
    desk.ask('b');
    desk.nowMs -= 30 * MINUTE;
    desk.settle('b');
    desk.ask('c');
    expect(desk.nextGrants()).toEqual([HELD, ['c']]);
  });

  it('of a follow-up lengthens no slot, and shortens it to its grant at most (G5)', () => {
    const desk = new Desk();
    const grantedAtMs = desk.nowMs;
    desk.askAll(['ahead', 'behind']);
    desk.wait(10 * SECOND);
    desk.settle('ahead', 'sent', { atMs: desk.nowMs + HOUR });
    desk.settle('behind', 'sent', { atMs: desk.nowMs - HOUR });
    expect(desk.budget.slotEnds()).toEqual([grantedAtMs + HELD, desk.nowMs + HELD]);
  });

  it('that steps ahead by less than the margin frees nothing within the window (G5)', () => {
    const desk = new Desk({ limit: 1 });
    desk.send('a');
    desk.ask('b');
    desk.wait(HOUR - 1 + MARGIN);
    expect(desk.granted()).toEqual([]);
  });
});

describe('the line', () => {
  it('gives every tenth grant to the batch lane while interactive ones keep coming', () => {
    const desk = new Desk({ limit: 0 });
    desk.askAll(names('b', 3), { lane: 'batch' });
    desk.askAll(names('i', 30));
    desk.setLimit({ limit: 100 });
    const order: string[] = [];
    for (let granted = desk.granted(); order.length < 30; granted = desk.granted()) {
      order.push(...granted);
      for (const name of granted) desk.settle(name);
    }
    expect(order.flatMap((name, index) => (name.startsWith('b') ? [index] : []))).toEqual([9, 19, 29]);
  });

  it('leaves a reserve to the interactive lane', () => {
    const desk = new Desk({ limit: 5, reserve: 2 });
    expect(desk.askAll(names('b', 4), { lane: 'batch' })).toEqual(['granted', 'granted', 'granted', 'waiting']);
    expect(desk.askAll(names('i', 3))).toEqual(['granted', 'granted', 'waiting']);
  });

  it.each([
    ['the worker’s configuration', { maxLimit: 4 }],
    ['the service', {}],
  ])('reserves its share of a lower limit, so that the batch lane is not kept from it: of %s', (_, change) => {
    const desk = new Desk({ limit: 10, reserve: 5 });
    if (!('maxLimit' in change)) desk.state.learned = { limit: 4, step: 1, refusals: 1, growAtMs: T0 + HOUR };
    expect(desk.askAll(names('b', 3), { lane: 'batch', ...change })).toEqual(['granted', 'granted', 'waiting']);
    expect(desk.askAll(names('i', 3), change)).toEqual(['granted', 'granted', 'waiting']);
  });

  it('keeps no follow-up behind those of its job that a reserve holds, however many (review 16, G1)', () => {
    const desk = new Desk({ limit: 2, reserve: 2 });
    desk.askAll(names('b', 10), { lane: 'batch', job: 'x' });
    expect(desk.ask('i', { job: 'x' }).kind).toBe('granted');
  });

  it('has one place for a job and lane: the others wait for their job', () => {
    const desk = new Desk({ limit: 0 });
    desk.ask('a1', { job: 'x' });
    expect(desk.ask('a2', { job: 'x' })).toMatchObject({ kind: 'waiting', reason: 'job-busy', position: 0 });
    expect(desk.ask('b1', { job: 'x', lane: 'batch' })).toMatchObject({ reason: 'slot', position: 2 });
    expect(desk.ask('c')).toMatchObject({ reason: 'slot', position: 2 });
  });

  it('has ten places for a job and 1,000 in all; who has none asks again, but not soon (review 14)', () => {
    const desk = new Desk({ limit: 0 });
    expect(new Set(desk.askAll(names('a', 10), { job: 'x' }))).toEqual(new Set(['waiting']));
    expect(desk.ask('late', { job: 'x' })).toMatchObject({ kind: 'full', reason: 'job-busy', retryMs: MINUTE });
    const { waiters } = desk.state;
    waiters.push(...names('b', 989).map((name) => ({ ...waiters[0]!, workflowId: followUp(name), job: name })));
    expect(desk.askAll(['last'])).toEqual(['waiting']);
    expect(desk.ask('c')).toMatchObject({ kind: 'full', reason: 'queue-full', retryMs: 15 * MINUTE });
    expect(desk.state.waiters).toHaveLength(1_000);
  });

  it('keeps every tenth place, of a job and in all, from the batch lane', () => {
    const desk = new Desk({ limit: 0, places: { most: 20, mostForJob: 10 } });
    const batch = { lane: 'batch' } as const;
    expect(desk.askAll(names('a', 10), { job: 'x', ...batch }).at(-1)).toBe('full');
    expect(desk.askAll(['b', 'c'], { job: 'x' })).toEqual(['waiting', 'full']);
    expect(desk.askAll(names('d', 9), batch).slice(-2)).toEqual(['waiting', 'full']);
    expect(desk.askAll(['e', 'f', 'g'])).toEqual(['waiting', 'waiting', 'full']);
  });

  it('grants what can be sent beside a free slot, however many stand in it who cannot (G1)', () => {
    const desk = new Desk({ places: { most: 10, mostForJob: 10 } });
    desk.send('owner', { job: 'x' });
    desk.askAll(names('waits', 10), { job: 'x' });
    expect(desk.ask('sendable').kind).toBe('granted');
  });

  it('always has a place for whoever has the turn of the job (review N1)', () => {
    const desk = new Desk({ limit: 1, counts: true });
    desk.book([{ workflowId: followUp('owner', 'x'), isRunning: true }]);
    desk.askAll(names('a', 10), { job: 'x' });
    expect(desk.ask('owner', { job: 'x', sendNumber: 2 })).toMatchObject({ reason: 'slot', position: 1 });
  });

  it('always has its place for whoever had one (review N1)', () => {
    const desk = new Desk({ limit: 1, places: { most: 3, mostForJob: 10 } });
    desk.askAll(['a', ...names('b', 3)]);
    desk.settle('a', 'rejected');
    expect(desk.ask('c').kind).toBe('full');
    expect(desk.ask('a', { sendNumber: 2 })).toMatchObject({ kind: 'waiting', position: 1 });
  });

  it('takes message, lane and lease from the latest ask of a follow-up (review N22)', () => {
    const desk = new Desk({ limit: 0 });
    desk.ask('a', { lane: 'batch' });
    const change = { runId: 'new', sendNumber: 3, messageTag: 'another', leaseMs: 7, drainMs: 8 };
    desk.ask('a', { ...change, lane: 'interactive' });
    expect(desk.state.waiters).toMatchObject([{ ...change, lane: 'interactive', arrival: 1 }]);
    expect(desk.state.waiters).toHaveLength(1);
  });

  it.each(['terminated in line', 'terminated behind a pause'])(
    'empties at the next free slot if all in it but one were %s: they take none (review 9, N20)',
    (how) => {
      const desk = new Desk({ limit: how.endsWith('line') ? 0 : 100 });
      if (desk.state.settings.limit > 0) desk.pause();
      desk.askAll([...names('a', 150), 'alive']);
      desk.told();
      desk.setLimit({ limit: 100 });
      desk.resume();
      for (let messages = desk.told(); messages.length > 0; messages = desk.told()) {
        desk.miss(messages.filter(({ workflowId }) => workflowId !== followUp('alive')));
      }
      expect(desk.state).toMatchObject({ waiters: [], spent: [], grants: [{ workflowId: followUp('alive') }] });
    },
  );

  it('says when a slot is expected, counting those before it', () => {
    const desk = new Desk({ limit: 3, reserve: 1 });
    const [first, , last] = names('a', 3).map((name) => {
      desk.send(name);
      desk.wait(MINUTE);
      return desk.nowMs - MINUTE + HELD;
    });
    expect(desk.ask('i0')).toMatchObject({ position: 1, expectedAtMs: first });
    expect(desk.ask('b', { lane: 'batch' })).toMatchObject({ position: 2, expectedAtMs: last });
    desk.askAll(['i1', 'i2']);
    for (const answer of [desk.ask('i3'), desk.ask('busy', { job: 'a0' })]) {
      expect(answer).not.toHaveProperty('expectedAtMs');
    }
  });

  it('expects no slot of a refused message where the service accepts fewer than the limit', () => {
    const desk = new Desk({ limit: 100 });
    for (const sendNumber of [1, 2, 3]) {
      desk.ask('refused', { sendNumber });
      desk.settle('refused', 'payment', { sendNumber });
      desk.resume();
    }
    desk.end('refused');
    const reject = (name: string) => {
      desk.ask(name);
      desk.settle(name, 'rejected');
      desk.end(name);
    };
    reject('accepted');
    desk.wait(40 * MINUTE);
    desk.told();
    for (const name of names('a', 20)) desk.send(name);
    for (const name of ['b', 'probe']) {
      desk.ask(name);
      desk.settle(name, 'limited');
      desk.end(name);
      desk.wait(61 * SECOND);
    }
    reject('accepted probe');
    const { expectedAtMs } = desk.ask('c') as Waiting;
    const sinceMs = desk.nowMs;
    expect(desk.nextGrants()).toEqual([expectedAtMs! - sinceMs, ['c']]);
  });

  it('tells the first twenty, once, when their reason to wait changes', () => {
    const desk = new Desk({ limit: 0 });
    desk.askAll(names('a', 30));
    desk.pause();
    desk.wait(HOUR);
    const told = desk.told();
    expect(told.map(({ workflowId }) => workflowId)).toEqual(names('a', 20).map((name) => followUp(name)));
    expect(told[0]?.answer).toMatchObject({ kind: 'waiting', reason: 'paused', runId: 'run-of-a0', sendNumber: 1 });
  });
});

describe('an operator', () => {
  it('lowers the limit: what is used drains', () => {
    const desk = new Desk({ limit: 3 });
    for (const name of names('a', 3)) {
      desk.send(name);
      desk.wait(MINUTE);
    }
    desk.ask('b');
    desk.setLimit({ limit: 1 });
    expect(desk.nextGrants()).toEqual([HELD - MINUTE, ['b']]);
  });

  it('raises the limit up to what the latest worker allows', () => {
    const desk = new Desk({ limit: 1 });
    desk.askAll(names('a', 6), { maxLimit: 4 });
    desk.setLimit({ limit: 1_000 });
    expect(desk.granted()).toEqual(['a1', 'a2', 'a3']);
    desk.ask('b', { maxLimit: 5 });
    expect(desk.granted()).toEqual(['a4']);
    expect(desk.budget.limit).toBe(5);
  });

  it('is held again by a longer window, after a shorter one has let it go', () => {
    const desk = new Desk({ limit: 2 });
    for (const name of ['a', 'b']) desk.send(name);
    desk.setLimit({ windowMs: MINUTE });
    desk.wait(2 * MINUTE);
    expect(desk.budget.slotEnds()).toEqual([]);
    desk.setLimit({ windowMs: HOUR });
    expect(desk.budget.slotEnds()).toEqual([T0 + HELD, T0 + HELD]);
  });

  it.each([300, 10])('is held by a longer window, whatever the limit was (new limit %i)', (limit) => {
    const desk = new Desk({ limit: 100 });
    for (const hour of names('hour', 3)) {
      for (const name of names(`${hour}-`, 100)) {
        desk.send(name);
        desk.end(name);
      }
      desk.wait(HELD);
    }
    desk.setLimit({ limit, windowMs: 4 * HOUR });
    expect(desk.budget.slotEnds()).toHaveLength(300);
    expect(desk.ask('a').kind).toBe('waiting');
  });

  it('is held by a longer window also after a send of which nobody said how it ended', () => {
    const desk = new Desk({ limit: 1 });
    desk.ask('a');
    desk.wait(2 * HOUR);
    desk.setLimit({ windowMs: 3 * HOUR });
    expect(desk.budget.slotEnds()).toEqual([T0 + OVER + 3 * HOUR + MARGIN]);
  });

  it('is held by a longer window also after a send that was heard of late', () => {
    const desk = new Desk({ windowMs: MINUTE });
    desk.ask('a');
    desk.wait(OVER + 5 * MINUTE);
    desk.settle('a');
    desk.setLimit({ windowMs: HOUR });
    expect(desk.budget.slotEnds()).toEqual([T0 + OVER + HELD]);
  });

  it('is held by a longer window for each message of a follow-up', () => {
    const desk = new Desk({ limit: 10, windowMs: 10 * MINUTE });
    desk.wait(3 * HOUR);
    for (const sendNumber of [1, 2, 3, 4, 5]) {
      if (desk.ask('a', { sendNumber }).kind === 'waiting') desk.nextGrants();
      desk.settle('a', 'limited', { sendNumber });
    }
    desk.end('a');
    desk.wait(12 * MINUTE);
    expect(desk.budget.slotEnds()).toEqual([]);
    desk.setLimit({ windowMs: HOUR });
    expect(desk.budget.slotEnds()).toHaveLength(5);
  });

  it('is held by a longer window for no more messages than any limit may be', () => {
    const desk = new Desk({ windowMs: MINUTE });
    for (const name of names('a', 5)) {
      desk.ask(name, { maxLimit: 3 });
      desk.settle(name);
      desk.wait(2 * MINUTE);
    }
    expect(desk.state.freed).toEqual([4, 6, 8].map((minutes) => T0 + minutes * MINUTE));
  });

  it('is counted again where the longer window reaches back before what the budget remembers', () => {
    const desk = new Desk();
    desk.wait(HOUR);
    desk.setLimit({ windowMs: HOUR + 1 });
    expect(desk.state.isCounting).toBe(true);
    const longer = new Desk();
    longer.wait(2 * HOUR);
    longer.setLimit({ windowMs: HOUR + 1 });
    expect(longer.state.isCounting).toBe(false);
  });

  it('is told when a pause of a set time is over, also if nobody waits', () => {
    const desk = new Desk();
    desk.pause({ untilMs: T0 + HOUR });
    expect(desk.budget.nextChangeMs(T0)).toBe(T0 + HOUR);
    expect(desk.budget.nextChangeMs(T0 + HOUR)).toBeUndefined();
    desk.pause();
    expect(desk.budget.nextChangeMs(T0)).toBeUndefined();
  });

  it('changes window and reserve alone', () => {
    const desk = new Desk({ limit: 2 });
    desk.send('a');
    desk.setLimit({ windowMs: MINUTE, reserve: 1 });
    expect(desk.state.settings).toEqual({ limit: 2, windowMs: MINUTE, reserve: 1, marginMs: MARGIN });
    desk.ask('b', { lane: 'batch' });
    expect(desk.nextGrants()).toEqual([MINUTE + MARGIN, ['b']]);
  });

  it('pauses until a time, or until he resumes, with a note for people', () => {
    const desk = new Desk();
    const [untilMs, note] = [desk.nowMs + HOUR, 'a release'];
    desk.pause({ untilMs, note });
    const pause = { by: 'operator', until: iso(untilMs), note };
    expect(desk.ask('a')).toMatchObject({ reason: 'paused', position: 1, pause });
    expect(desk.nextGrants()).toEqual([HOUR, ['a']]);
    desk.pause();
    expect(desk.ask('b')).toMatchObject({ reason: 'paused', pause: { by: 'operator' } });
    desk.wait(30 * 24 * HOUR);
    expect(desk.granted()).toEqual([]);
    desk.resume();
    expect(desk.granted()).toEqual(['b']);
    expect(desk.budget.pauseOf(desk.nowMs)).toBeUndefined();
  });
});

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
