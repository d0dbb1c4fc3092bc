import { describe, expect, it } from 'vitest';
import { slotEnds } from '../../src/budget/slots.js';
import { budgetStatus } from '../../src/budget/status.js';
import { iso } from '../../src/common/index.js';
import type { Refusal } from '../../src/contract/index.js';
import { Desk, followUp, HELD, HOUR, lastTurn, LEASE, MINUTE, names, SECOND, T0 } from './rules.js';

const newDesk = () => new Desk({ limit: 100 });
const askAll = (desk: Desk, ...all: string[]) => all.forEach((name) => desk.ask(name));
const shownPause = (desk: Desk) => budgetStatus('project', desk.state, desk.nowMs).paused;

/** A project that pauses from now on, for a second, because the message of `first` was refused. */
function pausedDesk(waiting: readonly string[], reason: Exclude<Refusal, 'outage'> = 'credentials'): Desk {
  const desk = newDesk();
  desk.ask('first');
  desk.report('first', reason);
  askAll(desk, ...waiting);
  desk.signals();
  return desk;
}

/** The next grant, whose message is then refused. */
function refuseNext(desk: Desk, reason: Exclude<Refusal, 'outage'> = 'credentials', retryAfterMs?: number) {
  const [afterMs, [name = '']] = desk.nextGrants();
  desk.report(name, reason, retryAfterMs === undefined ? {} : { retryAfterMs });
  return [afterMs, name];
}

describe('a pause of the project', () => {
  it('lets one message probe, and then twice as many with each accepted one, up to ten', () => {
    const desk = pausedDesk(names('w', 20));
    expect(desk.ask('late')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
    const [afterMs, [probe = '']] = desk.nextGrants();
    expect([afterMs, probe]).toEqual([SECOND, 'late']);
    desk.wait(10 * SECOND);
    expect(desk.granted()).toEqual([]);
    desk.report(probe);
    expect(desk.granted()).toEqual(['w0', 'w1']);
    desk.report('w0');
    expect(desk.granted()).toEqual(['w2', 'w3', 'w4']);
    desk.report('w1');
    expect(desk.granted()).toEqual(['w5', 'w6', 'w7', 'w8', 'w9']);
    desk.report('w2');
    expect(desk.granted()).toEqual(['w10', 'w11', 'w12']);
  });

  it('is probed by a message that was refused least, interactive ones first, and the newest of these', () => {
    const desk = pausedDesk(['old', 'new']);
    desk.ask('nightly', { lane: 'batch' });
    desk.ask('first', { sendNumber: 2 });
    expect([refuseNext(desk)[1], refuseNext(desk)[1], refuseNext(desk)[1]]).toEqual(['new', 'old', 'nightly']);
    expect(desk.nextGrants()[1]).toEqual(['first']);
  });

  it('is four times as long after each refused probe of another message, up to ten minutes', () => {
    const desk = pausedDesk(names('w', 7));
    const pausesMs = names('w', 7).map(() => refuseNext(desk)[0]);
    expect(pausesMs).toEqual([1, 4, 16, 64, 256, 600, 600].map((seconds) => seconds * SECOND));
  });

  it('is no longer when a message is refused again, which waits longer itself', () => {
    const desk = pausedDesk([]);
    const askAgain = (sendNumber: number) => desk.ask('first', { sendNumber });
    askAgain(2);
    expect(refuseNext(desk)).toEqual([30 * SECOND, 'first']);
    askAgain(3);
    expect(refuseNext(desk)).toEqual([90 * SECOND, 'first']);
    askAgain(4);
    desk.ask('new');
    expect(desk.nextGrants()).toEqual([SECOND, ['new']]);
  });

  it('after a 429 begins with a 120th of the window, and grows to a sixth', () => {
    const desk = new Desk({ limit: 1_000, windowMs: 20 * MINUTE });
    desk.ask('first');
    desk.report('first', 'limited');
    askAll(desk, ...names('w', 4));
    const pausesMs = names('w', 4).map(() => refuseNext(desk, 'limited')[0]);
    expect(pausesMs).toEqual([10, 40, 160, 200].map((seconds) => seconds * SECOND));
  });

  it.each(['limited', 'credentials'] as const)('lasts as long as the Retry-After of a probe says (%s)', (reason) => {
    const desk = newDesk();
    askAll(desk, 'a', 'b', 'c');
    desk.report('a', reason, { retryAfterMs: 45 * MINUTE });
    // It was under way with the first.
    desk.report('b', reason, { retryAfterMs: 45 * MINUTE });
    desk.report('c', reason, { retryAfterMs: SECOND });
    askAll(desk, 'd', 'e');
    // Until a probe meets it, it may be a limit of those messages alone.
    const [afterMs] = refuseNext(desk, reason, 45 * MINUTE);
    expect(afterMs).toBeLessThan(MINUTE);
    expect(desk.nextGrants()).toEqual([45 * MINUTE, ['d']]);
  });

  it('is not lengthened by the messages that were under way with the refused one', () => {
    const desk = newDesk();
    askAll(desk, ...names('a', 11));
    for (const name of names('a', 10)) desk.report(name, 'payment');
    expect(desk.nextGrants()).toEqual([SECOND, ['a10']]);
  });

  it('ends with any accepted message, but after a 429 only with a probe', () => {
    const isPausedAfter = (reason: 'payment' | 'limited') => {
      const desk = newDesk();
      askAll(desk, 'a', 'b', 'c');
      desk.report('a', reason);
      desk.report('b');
      return desk.state.pace.pause !== undefined;
    };
    expect([isPausedAfter('payment'), isPausedAfter('limited')]).toEqual([false, true]);
  });

  it('lets another message probe if one was not sent, or was not reported within its lease', () => {
    const desk = pausedDesk(['a', 'b', 'c']);
    expect(desk.nextGrants()).toEqual([SECOND, ['c']]);
    desk.report('c', 'notSent');
    expect(desk.nextGrants()).toEqual([0, ['b']]);
    expect(desk.nextGrants()).toEqual([LEASE, ['a']]);
  });

  it('is one reason to wait, which is signalled once', () => {
    const desk = newDesk();
    askAll(desk, ...names('a', 12));
    desk.signals();
    desk.report('a0', 'credentials');
    expect(desk.signals().map(({ reply }) => reply)).toMatchObject([
      { reason: 'credentials' },
      { reason: 'credentials' },
    ]);
    const [, [probe = '']] = desk.nextGrants();
    desk.report(probe, 'credentials');
    expect(desk.signals()).toEqual([]);
  });

  it('is probed at once when an operator resumes, and never while he pauses', () => {
    const desk = pausedDesk(['a', 'b']);
    desk.pause();
    desk.wait(HOUR);
    expect(desk.granted()).toEqual([]);
    desk.resume();
    expect(desk.granted()).toEqual(['b']);
    expect(desk.ask('c')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
  });

  it('begins with a read that is refused before the ask, and is left to its probe', () => {
    const desk = newDesk();
    const refusal = { refusal: 'credentials', statusCode: 401, retryAfterMs: MINUTE } as const;
    expect(desk.ask('a', refusal)).toMatchObject({ kind: 'waiting', reason: 'credentials' });
    desk.wait(30 * SECOND);
    desk.ask('b', refusal);
    expect(desk.nextGrants()).toEqual([30 * SECOND, ['a']]);
  });

  it('counts a read that is refused before the send and again before the next ask once', () => {
    const desk = newDesk();
    desk.ask('a');
    desk.report('a', 'notSent', { refusal: 'credentials' });
    desk.wait(SECOND);
    desk.ask('a', { sendNumber: 2, refusal: 'credentials' });
    expect(desk.nextGrants()).toEqual([29 * SECOND, ['a']]);
  });

  it('begins with a read that is refused just before the send, whose slot is free again', () => {
    const desk = newDesk();
    askAll(desk, 'a', 'b');
    desk.report('a', 'notSent', { refusal: 'credentials', retryAfterMs: MINUTE });
    expect(slotEnds(desk.state)).toHaveLength(1);
    expect(desk.ask('c')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
  });

  it('begins with a refusal that is reported after its grant is over, but not with one that is reported twice', () => {
    const desk = newDesk();
    desk.ask('a');
    desk.wait(HELD);
    desk.report('a', 'credentials');
    expect(desk.ask('b')).toMatchObject({ kind: 'waiting' });
    desk.resume();
    expect(desk.granted()).toEqual(['b']);
    desk.report('b');
    desk.report('a', 'credentials');
    expect(desk.ask('c')).toMatchObject({ kind: 'granted' });
  });

  it('is shown until its time is over, then only while somebody waits', () => {
    const desk = pausedDesk(['a']);
    desk.end('a');
    expect(shownPause(desk)).toEqual({ reasons: ['credentials'], since: iso(T0), until: iso(T0 + SECOND) });
    expect(desk.budget.nextChangeMs(desk.nowMs)).toBe(T0 + SECOND);
    desk.wait(SECOND);
    expect(shownPause(desk)).toBeUndefined();
    expect(desk.take('other', 1)).toMatchObject({ taken: true });
    expect(desk.ask('b')).toMatchObject({ kind: 'granted' });
    expect(desk.ask('c')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
    expect(shownPause(desk)).toMatchObject({ reasons: ['credentials'] });
  });
});

describe('after the time of a pause is over', () => {
  it('it is not shown, and nobody waits for it, while those who wait may not be sent', () => {
    const desk = pausedDesk(['busy']);
    desk.end('busy');
    desk.ask('busy', { jobIs: 'at-work' });
    desk.end('first');
    desk.wait(HOUR);
    expect(shownPause(desk)).toBeUndefined();
    expect(desk.ask('busy', { jobIs: 'at-work' })).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
  });

  it('it is shown until a slot is free, if the refusals have used all', () => {
    const desk = new Desk({ limit: 1 });
    desk.ask('a');
    desk.report('a', 'credentials');
    desk.ask('a', { sendNumber: 2 });
    desk.wait(10 * MINUTE);
    expect(shownPause(desk)).toMatchObject({ reasons: ['credentials'], until: iso(slotEnds(desk.state)[0]!) });
  });
});

describe('a message that is refused while others are accepted', () => {
  /** The next refusals of `bad`, each after another message was accepted. */
  function refuseAlone(desk: Desk, reason: Exclude<Refusal, 'outage'>, times: number): number[] {
    return Array.from({ length: times }, (_, i) => {
      const [afterMs, granted] = desk.nextGrants();
      expect(granted).toEqual(['bad']);
      desk.report('bad', reason, { sendNumber: i + 2 });
      desk.ask('bad', { sendNumber: i + 3 });
      desk.wait(1);
      desk.send(`good${i}`);
      desk.end(`good${i}`);
      desk.signals();
      return afterMs;
    });
  }

  function deskWithBad(reason: 'credentials' | 'payment'): Desk {
    const desk = newDesk();
    desk.ask('bad', { job: 'x' });
    desk.report('bad', reason);
    desk.ask('bad', { sendNumber: 2 });
    desk.ask('good');
    desk.wait(MINUTE);
    expect(desk.granted()).toContain('good');
    desk.report('good');
    return desk;
  }

  it('waits alone, three times as long each time, up to an hour', () => {
    const desk = deskWithBad('credentials');
    const [first, ...delaysMs] = refuseAlone(desk, 'credentials', 7);
    expect(first).toBe(0);
    expect(delaysMs.map((ms) => ms + 1)).toEqual([90, 270, 810, 2430, 3600, 3600].map((seconds) => seconds * SECOND));
    expect(desk.state.pace.pause).toBeUndefined();
  });

  it('waits at least as long as its Retry-After', () => {
    const desk = deskWithBad('payment');
    desk.nextGrants();
    desk.report('bad', 'payment', { sendNumber: 2, retryAfterMs: 2 * HOUR });
    desk.ask('bad', { sendNumber: 3 });
    expect(desk.nextGrants()).toEqual([2 * HOUR, ['bad']]);
  });

  it('waits out its Retry-After, although a later read gets a shorter one', () => {
    const desk = deskWithBad('payment');
    desk.nextGrants();
    desk.report('bad', 'payment', { sendNumber: 2, retryAfterMs: 2 * HOUR });
    desk.wait(MINUTE);
    desk.ask('bad', { sendNumber: 3, refusal: 'limited', retryAfterMs: SECOND });
    expect(desk.nextGrants()).toEqual([2 * HOUR - MINUTE, ['bad']]);
  });

  it('waits out its Retry-After, although a budget that was restored learns of it after the next ask', () => {
    const desk = new Desk({ counts: true });
    desk.ask('bad', { sendNumber: 2 });
    desk.report('bad', 'payment', { sendNumber: 1, retryAfterMs: 2 * HOUR });
    desk.book([]);
    expect(desk.nextGrants()).toEqual([2 * HOUR, ['bad']]);
  });

  it('leaves its job to others from its first refusal on', () => {
    const desk = newDesk();
    askAll(desk, 'bad', 'good');
    desk.ask('other', { job: 'bad' });
    desk.signals();
    desk.report('bad', 'credentials');
    desk.ask('bad', { sendNumber: 2 });
    desk.report('good');
    expect(desk.granted()).toEqual(['other']);
  });

  it('is shown with its status and the time of the next try', () => {
    const desk = deskWithBad('credentials');
    desk.nextGrants();
    desk.report('bad', 'credentials', { sendNumber: 2, statusCode: 403 });
    const refusedAtMs = desk.nowMs;
    expect(desk.ask('bad', { sendNumber: 3 })).toMatchObject({ reason: 'credentials', pause: { by: 'message' } });
    const { waiting, refused } = budgetStatus('project', desk.state, desk.nowMs);
    const refusal = { reason: 'credentials', statusCode: 403, until: iso(refusedAtMs + 90 * SECOND) };
    expect(waiting).toEqual([{ workflowId: followUp('bad', 'x'), lane: 'interactive', position: 1, refusal }]);
    expect(refused).toEqual([{ reason: 'credentials', statusCode: 403, messages: 1, of: 2, accepted: 1 }]);
  });

  it('is tried at once when an operator resumes, also if it asks only then', () => {
    const desk = newDesk();
    desk.ask('a');
    desk.report('a', 'notSent', { refusal: 'credentials' });
    desk.resume();
    expect(desk.ask('a', { sendNumber: 2 })).toMatchObject({ kind: 'granted' });
  });

  it('is tried at once when an operator resumes', () => {
    const desk = deskWithBad('payment');
    desk.nextGrants();
    desk.report('bad', 'payment', { sendNumber: 2 });
    desk.ask('bad', { sendNumber: 3 });
    desk.resume();
    expect(desk.granted()).toEqual(['bad']);
  });

  it('stands behind those that were started while it waited', () => {
    const desk = deskWithBad('credentials');
    desk.nextGrants();
    desk.report('bad', 'credentials', { sendNumber: 2 });
    desk.ask('bad', { sendNumber: 3 });
    desk.pause({ untilMs: desk.nowMs + 10 * MINUTE });
    desk.ask('later', { startedAtMs: desk.nowMs });
    expect(desk.nextGrants()[1]).toEqual(['later', 'bad']);
  });

  it('counts as alone only from its third 429 on', () => {
    const desk = newDesk();
    desk.ask('bad');
    const refuse = (sendNumber: number) => {
      desk.report('bad', 'limited', { sendNumber });
      desk.ask('bad', { sendNumber: sendNumber + 1 });
    };
    const acceptAnother = (name: string) => {
      desk.ask(name);
      expect(desk.nextGrants()[1]).toEqual([name]);
      desk.report(name);
      expect(desk.nextGrants()[1]).toEqual(['bad']);
    };
    refuse(1);
    acceptAnother('other');
    refuse(2);
    expect(shownPause(desk)).toMatchObject({ reasons: ['limited'] });
    acceptAnother('another');
    refuse(3);
    expect(shownPause(desk)).toBeUndefined();
  });
});

describe('messages without a clear response', () => {
  it('pause the project after the third in a row for 30 s, and then four times as long, as an outage', () => {
    const desk = newDesk();
    askAll(desk, 'a', 'b', 'c');
    for (const name of ['a', 'b']) desk.report(name, 'unknown', { statusCode: 503 });
    expect(shownPause(desk)).toBeUndefined();
    desk.report('c', 'unknown', { statusCode: 503 });
    askAll(desk, 'd', 'e');
    expect(shownPause(desk)).toMatchObject({ reasons: ['outage'] });
    expect(desk.nextGrants()).toEqual([30 * SECOND, ['e']]);
    desk.report('e', 'unknown', { statusCode: 503 });
    expect(desk.nextGrants()).toEqual([2 * MINUTE, ['d']]);
    desk.report('d');
    expect(shownPause(desk)).toBeUndefined();
    const { refused } = budgetStatus('project', desk.state, desk.nowMs);
    expect(refused).toEqual([{ reason: 'outage', statusCode: 503, messages: 4, of: 5, accepted: 1 }]);
  });

  it.each(['sent', 'rejected'] as const)(
    'pause nothing if another was %s between them, but then one is sent at a time',
    (outcome) => {
      const desk = newDesk();
      askAll(desk, 'a', 'b', 'c', 'd');
      for (const name of ['a', 'b']) desk.report(name, 'unknown');
      desk.report('c', outcome);
      desk.report('d', 'unknown');
      expect(shownPause(desk)).toBeUndefined();
      expect([desk.ask('e').kind, desk.ask('f').kind]).toEqual(['granted', 'waiting']);
    },
  );
});

it('messages without a clear response that are hours apart are no outage', () => {
  const desk = newDesk();
  for (const name of ['a', 'b', 'c']) {
    desk.ask(name);
    desk.report(name, 'unknown');
    desk.wait(10 * HOUR);
  }
  expect(shownPause(desk)).toBeUndefined();
});

describe('a 429 while slots are free', () => {
  /** A project whose service has answered 429 once, and accepts messages again. */
  function spacedDesk(): Desk {
    const desk = pausedDesk(names('w', 30), 'limited');
    const [afterMs, [probe = '']] = desk.nextGrants();
    expect(afterMs).toBe(36 * SECOND);
    desk.report(probe);
    return desk;
  }
  const sendNext = (desk: Desk) => {
    const [afterMs, [name = '']] = desk.nextGrants();
    desk.report(name);
    return afterMs;
  };

  it('spaces the messages evenly over the window, from each response on', () => {
    const desk = spacedDesk();
    expect([sendNext(desk), sendNext(desk)]).toEqual([36 * SECOND, 36 * SECOND]);
    const status = budgetStatus('project', desk.state, desk.nowMs);
    expect(status).toMatchObject({ spacingMs: 36 * SECOND });
    expect(status.waiting.slice(0, 2).map(({ expectedAt }) => expectedAt)).toEqual([
      iso(desk.nowMs + 36 * SECOND),
      iso(desk.nowMs + 72 * SECOND),
    ]);
  });

  it('lengthens the time between messages each time that it is too short, and each accepted message shortens it', () => {
    const desk = spacedDesk();
    refuseNext(desk, 'limited');
    expect(desk.state.pace.limit.spacingMs).toBe(41_400);
    sendNext(desk);
    expect(desk.state.pace.limit.spacingMs).toBe(41_193);
  });

  it('spaces nothing if the window is full by the budget’s own count', () => {
    const desk = new Desk({ limit: 3 });
    askAll(desk, 'a', 'b');
    desk.report('a');
    desk.report('b');
    desk.take('other', 1);
    desk.call((budget, nowMs) => budget.setLimit(nowMs, { limit: 4 }));
    desk.ask('c');
    desk.call((budget, nowMs) => budget.setLimit(nowMs, { limit: 3 }));
    desk.report('c', 'limited');
    expect(desk.state.pace).toMatchObject({ limit: { isSpaced: false }, pause: { reason: 'limited' } });
  });

  it('is forgotten after a window without another', () => {
    const desk = spacedDesk();
    desk.wait(HOUR);
    sendNext(desk);
    desk.signals();
    sendNext(desk);
    expect(budgetStatus('project', desk.state, desk.nowMs)).not.toHaveProperty('spacingMs');
  });

  it('is forgotten when an operator resumes or sets a limit', () => {
    for (const forget of [(desk: Desk) => desk.resume(), (desk: Desk) => desk.play('limit 90')]) {
      const desk = spacedDesk();
      forget(desk);
      expect(desk.granted()).toEqual(['w0', 'w1']);
    }
  });

  it('lets a message probe early when a turn ends, until such a probe is refused', () => {
    const desk = newDesk();
    for (const name of ['one', 'two', 'three']) desk.send(name);
    desk.ask('first');
    desk.report('first', 'limited');
    askAll(desk, 'a', 'b', 'c');
    desk.signals();
    const endTurn = (name: string) => desk.end(name, { lastTurn });
    endTurn('one');
    expect(desk.granted()).toEqual(['a']);
    desk.report('a');
    expect(shownPause(desk)).toMatchObject({ reasons: ['limited'] });
    endTurn('two');
    expect(desk.granted()).toEqual(['b']);
    desk.report('b', 'limited');
    endTurn('three');
    expect(desk.granted()).toEqual([]);
  });

  it('lets a message probe as soon as a Retry-After is over, if a turn has ended before', () => {
    const desk = newDesk();
    for (const name of ['one', 'two', 'three', 'four']) desk.send(name);
    askAll(desk, 'a', 'b', 'c', 'd');
    const endTurn = (name: string) => desk.end(name, { lastTurn });
    for (const [turn, name] of [
      ['one', 'b'],
      ['two', 'c'],
    ] as const) {
      if (turn === 'one') desk.report('a', 'limited');
      endTurn(turn);
      desk.report(name);
    }
    desk.report('d', 'limited');
    askAll(desk, 'e', 'f');
    expect(refuseNext(desk, 'limited', MINUTE)[1]).toBe('f');
    endTurn('three');
    expect(desk.nextGrants()).toEqual([MINUTE, ['e']]);
  });

  it('is not overlooked because a message that was under way is refused otherwise', () => {
    const desk = newDesk();
    askAll(desk, 'a', 'b', 'c');
    desk.report('a', 'limited');
    desk.report('b', 'credentials');
    desk.report('c');
    expect(shownPause(desk)).toMatchObject({ reasons: ['limited'] });
  });

  it('does not keep other software from taking free slots', () => {
    const desk = spacedDesk();
    for (const name of names('w', 29)) desk.end(name);
    expect(desk.take('other', 3)).toMatchObject({ taken: true });
  });

  it('counts for less after a long time: spacing ends after one window again', () => {
    const desk = spacedDesk();
    desk.state.pace.limit.spacedWindows = 32;
    desk.wait(100 * HOUR);
    desk.signals();
    desk.report('w0', 'limited');
    expect(desk.state.pace).toMatchObject({ limit: { spacedWindows: 1, spacingMs: 36 * SECOND } });
  });

  it('lets no message probe before a Retry-After is over', () => {
    const desk = newDesk();
    desk.send('one');
    desk.ask('first');
    desk.report('first', 'limited');
    askAll(desk, 'a', 'b');
    refuseNext(desk, 'limited', HOUR);
    desk.end('one', { lastTurn });
    expect(desk.nextGrants()).toEqual([HOUR, ['a']]);
  });
});
