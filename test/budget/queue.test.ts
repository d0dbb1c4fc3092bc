import { describe, expect, test } from 'vitest';
import type { Budget } from '../../src/budget/index.js';
import { GRANT_AHEAD_MS, SLOW_SEND_MS } from '../../src/budget/limits.js';
import type { AcquireRequest } from '../../src/contract/protocol.js';
import { acquire, ask, askOnce, finish, MARGIN_MS, newBudget, settle, spend, T0, WINDOW_MS } from './support.js';

const HELD_MS = WINDOW_MS + MARGIN_MS;

describe('the queue', () => {
  test('lists its first hundred, and any other follow-up that is asked about', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'x');
    for (let index = 1; index <= 150; index++) acquire(budget, T0 + index, `w-${index}`);
    acquire(budget, T0 + 151, 'same-job', { jobId: 'job-w-1' });
    expect(budget.status(T0 + 200).waiting).toHaveLength(100);
    const { waiting } = budget.status(T0 + 200, { about: 'w-140' });
    expect(waiting).toHaveLength(101);
    expect(waiting.at(-1)).toMatchObject({ workflowId: 'w-140', position: 140 });
    expect(Date.parse(waiting.at(-1)?.expectedAt ?? '')).toBeGreaterThan(T0 + 139 * HELD_MS);
    expect(budget.status(T0 + 200, { about: 'same-job' }).waiting.at(-1)).not.toHaveProperty('position');
  });

  test('is quiet while nobody is invited', () => {
    const budget = newBudget({ limit: 1 });
    acquire(budget, T0, 'a');
    acquire(budget, T0 + 1, 'b');
    expect(budget.isQuiet(T0 + 1)).toBe(true);
    settle(budget, T0 + 500, 'a');
    expect(budget.isQuiet(T0 + 500)).toBe(true);
    expect(budget.tick(T0 + 500 + HELD_MS - GRANT_AHEAD_MS).wake).toEqual(['b']);
    expect(budget.isQuiet(T0 + 500 + HELD_MS - GRANT_AHEAD_MS)).toBe(false);
  });

  test('keeps the order of first asks within a lane, interactive before batch', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'x');
    acquire(budget, T0 + 1, 'night-1', { lane: 'batch' });
    acquire(budget, T0 + 2, 'night-2', { lane: 'batch' });
    acquire(budget, T0 + 3, 'day-1');
    acquire(budget, T0 + 4, 'day-2');
    expect(budget.status(T0 + 5).waiting.map((waiter) => waiter.workflowId)).toEqual([
      'day-1',
      'day-2',
      'night-1',
      'night-2',
    ]);
  });

  test('puts a batch follow-up first once nine interactive ones in a row have overtaken it', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'x');
    acquire(budget, T0 + 1, 'night', { lane: 'batch' });
    let nowMs = T0;
    for (let index = 0; index < 9; index++) {
      acquire(budget, nowMs + 2, `day-${index}`);
      nowMs += HELD_MS;
      expect(acquire(budget, nowMs, 'night', { lane: 'batch' })).toMatchObject({ kind: 'wait', position: 2 });
      spend(budget, nowMs, `day-${index}`);
    }
    acquire(budget, nowMs + 2, 'day-9');
    expect(acquire(budget, nowMs + HELD_MS, 'day-9')).toMatchObject({ kind: 'wait', position: 2 });
    expect(acquire(budget, nowMs + HELD_MS, 'night', { lane: 'batch' })).toMatchObject({ kind: 'granted' });
  });

  test('leaves the reserve to the interactive lane, however much was sent before', () => {
    for (let sentBefore = 0; sentBefore < 10; sentBefore++) {
      const budget = newBudget({ limit: 100, reserve: 10 });
      for (let index = 0; index < sentBefore; index++) spend(budget, T0, `x${index}`);
      const nowMs = T0 + HELD_MS;
      const batch = Array.from({ length: 120 }, (_, index) => {
        const name = `night-${index}`;
        const answer = acquire(budget, nowMs, name, { lane: 'batch' });
        settle(budget, nowMs, name);
        return answer.kind;
      });
      expect(batch.filter((kind) => kind === 'granted')).toHaveLength(90);
      expect(acquire(budget, nowMs + 5_000, 'day')).toMatchObject({ kind: 'granted' });
    }
  });

  test('lets a batch follow-up through even if the interactive lane uses up all but the reserve', () => {
    const budget = newBudget({ limit: 2, reserve: 1 });
    spend(budget, T0, 'x', 'y');
    acquire(budget, T0 + 1, 'night', { lane: 'batch' });
    for (let round = 1; round <= 5; round++) {
      const names = [`day-${2 * round}`, `day-${2 * round + 1}`];
      for (const name of names) acquire(budget, T0 + (round - 1) * HELD_MS + 2, name);
      const nowMs = T0 + round * HELD_MS;
      if (round < 5) spend(budget, nowMs, ...names);
      else {
        spend(budget, nowMs, names[0]!);
        expect(acquire(budget, nowMs, names[1]!)).toMatchObject({ kind: 'wait', position: 2 });
        expect(acquire(budget, nowMs, 'night', { lane: 'batch' })).toMatchObject({ kind: 'granted' });
      }
    }
  });

  test('invites nobody for whom there is no slot', () => {
    const budget = newBudget({ limit: 20, reserve: 5 });
    for (let index = 0; index < 14; index++) spend(budget, T0, `x${index}`);
    for (let index = 0; index < 8; index++) acquire(budget, T0 + 1, `night-${index}`, { lane: 'batch' });
    for (let index = 0; index < 8; index++) acquire(budget, T0 + 1, `day-${index}`);
    for (let nowMs = T0 + 10; nowMs < T0 + 60_000; nowMs += 100) {
      for (const name of budget.tick(nowMs).wake) {
        const lane = name.startsWith('night') ? 'batch' : 'interactive';
        expect(acquire(budget, nowMs + 1, name, { lane })).toMatchObject({ kind: 'granted' });
        settle(budget, nowMs + 1, name);
      }
    }
    expect(budget.status(T0 + 60_000).used).toBe(20);
  });

  test('tells positions and expected waits, one window longer for each full round', () => {
    const budget = newBudget({ limit: 2 });
    spend(budget, T0, 'x', 'y');
    const waits = ['a', 'b', 'c', 'd', 'e'].map((name) => acquire(budget, T0, name));
    expect(waits).toMatchObject([
      { position: 1, etaMs: HELD_MS },
      { position: 2, etaMs: HELD_MS },
      { position: 3, etaMs: 2 * HELD_MS + 50 },
      { position: 4, etaMs: 2 * HELD_MS + 50 },
      { position: 5, etaMs: 3 * HELD_MS + 100 },
    ]);
  });

  test('expects a send to take as long as the last ones, and makes a waiter sleep a second longer than expected', () => {
    const budget = newBudget({ limit: 1 });
    acquire(budget, T0, 'x');
    settle(budget, T0 + 3_000, 'x');
    acquire(budget, T0 + 3_000, 'a');
    const etaMs = 2 * HELD_MS + 3_000 + 50;
    expect(acquire(budget, T0 + 3_000, 'b')).toMatchObject({ kind: 'wait', etaMs, waitMs: etaMs + 1_000 });
  });

  test('keeps the place of a follow-up whose send has to be repeated', () => {
    const budget = newBudget({ limit: 1 });
    acquire(budget, T0, 'a');
    acquire(budget, T0 + 1, 'b');
    settle(budget, T0 + 2, 'a', { outcome: 'notSent' });
    expect(acquire(budget, T0 + 3, 'a', { sendNumber: 2, token: 'two' })).toMatchObject({ kind: 'granted' });
  });
});

describe('a slot that is about to end', () => {
  test('is granted ahead, and the send waits for its end', () => {
    const budget = newBudget({ limit: 2 });
    spend(budget, T0, 'x');
    spend(budget, T0 + 500, 'y');
    const nowMs = T0 + HELD_MS - 1_000;
    const answers = ['a', 'b', 'c'].map((name) => acquire(budget, nowMs, name));
    expect(answers).toMatchObject([
      { kind: 'granted', grantedAtMs: T0 + HELD_MS, sendAfterMs: 1_000 },
      { kind: 'granted', grantedAtMs: T0 + 500 + HELD_MS, sendAfterMs: 1_500 },
      { kind: 'wait', position: 1 },
    ]);
    expect(acquire(budget, nowMs + 900, 'a')).toMatchObject({ kind: 'granted', sendAfterMs: 100 });
    expect(acquire(budget, nowMs + 1_100, 'a')).toEqual({
      kind: 'granted',
      grantedAtMs: T0 + HELD_MS,
      ledgerSinceMs: 0,
    });
  });

  test('is not lost to the first in line if others behind it are granted later slots first', () => {
    const budget = newBudget({ limit: 3 });
    for (const [index, name] of ['x', 'y', 'z'].entries()) spend(budget, T0 + 500 * index, name);
    for (const name of ['a', 'b', 'c']) acquire(budget, T0 + 1_500, name);
    const nowMs = T0 + HELD_MS - 500;
    const granted = (atMs: number) => ({ kind: 'granted', grantedAtMs: atMs + HELD_MS });
    expect(acquire(budget, nowMs, 'c')).toMatchObject(granted(T0 + 1_000));
    expect(acquire(budget, nowMs, 'b')).toMatchObject(granted(T0 + 500));
    expect(acquire(budget, nowMs, 'a')).toMatchObject(granted(T0));
  });

  test('counts as used once: by its last send until it ends, then by the next one', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'x');
    const endMs = T0 + HELD_MS;
    acquire(budget, endMs - 1_000, 'a');
    for (const nowMs of [endMs - 1_000, endMs - 1, endMs, endMs + 1]) {
      expect(budget.status(nowMs).used).toBe(1);
      expect(budget.facts(nowMs).slotEndsMs).toHaveLength(1);
    }
  });

  test('is granted ahead only in the order of the queue', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'x');
    acquire(budget, T0, 'first');
    const nowMs = T0 + HELD_MS - 1_500;
    expect(budget.tick(nowMs).wake).toEqual(['first']);
    expect(acquire(budget, nowMs, 'second')).toMatchObject({ kind: 'wait', position: 2 });
    expect(acquire(budget, nowMs + 100, 'first')).toMatchObject({ kind: 'granted', sendAfterMs: 1_400 });
  });

  test('after the limit was lowered is granted only when the excess slots have ended', () => {
    const budget = newBudget({ limit: 3 });
    for (const [index, name] of ['x', 'y', 'z'].entries()) spend(budget, T0 + index * 500, name);
    budget.setLimit(T0 + 2_000, { limit: 1 });
    expect(acquire(budget, T0 + HELD_MS, 'a')).toMatchObject({ kind: 'granted', grantedAtMs: T0 + 1_000 + HELD_MS });
  });
});

describe('invitations', () => {
  test('wake the next waiter as soon as a slot comes free early', () => {
    const budget = newBudget({ limit: 1 });
    acquire(budget, T0, 'a');
    acquire(budget, T0, 'b');
    expect(settle(budget, T0 + 10, 'a', { outcome: 'notSent' }).wake).toEqual(['b']);
  });

  test('go to those who may send and to the next ten, who can ask while the first are sent', () => {
    const budget = newBudget({ limit: 100 });
    budget.pause(T0, {});
    for (let index = 0; index < 30; index++) acquire(budget, T0, `w${index}`);
    const { wake } = budget.resume(T0 + 1);
    expect(wake).toEqual(Array.from({ length: 20 }, (_, index) => `w${index}`));
    for (const name of wake.slice(0, 10)) expect(acquire(budget, T0 + 500, name)).toMatchObject({ kind: 'granted' });
    for (const name of wake.slice(10)) {
      expect(acquire(budget, T0 + 500, name)).toMatchObject({ kind: 'wait', reason: 'slot', waitMs: 1_000 });
    }
    expect(settle(budget, T0 + 600, 'w0').wake).toEqual(['w20']);
    expect(acquire(budget, T0 + 750, 'w10')).toMatchObject({ kind: 'granted' });
  });

  test('go to nobody who asks in place, however long the sends take that are in the way', () => {
    const budget = newBudget({ limit: 100 });
    for (let index = 0; index < 20; index++) {
      acquire(budget, T0 + index * 2_000, `x${index}`);
      settle(budget, T0 + index * 2_000 + 1_500, `x${index}`);
    }
    const nowMs = T0 + 40_000;
    for (let index = 0; index < 10; index++) acquire(budget, nowMs, `a${index}`);
    for (let askedAtMs = nowMs + 100; askedAtMs < nowMs + 1_500; askedAtMs += 250) {
      const [answer, { wake }] = askOnce(budget, askedAtMs, ask('next', askedAtMs));
      expect(answer).toMatchObject({ kind: 'wait', askInPlaceAfterMs: 0 });
      expect(wake).toEqual([]);
    }
  });

  test('go only to those who may send, if they are answered quickly', () => {
    const budget = newBudget({ limit: 100 });
    const resumeWith = (nowMs: number, count: number) => {
      budget.pause(nowMs, {});
      for (let index = 0; index < count; index++) acquire(budget, nowMs, `w${nowMs}-${index}`);
      return budget.resume(nowMs + 1).wake;
    };
    for (const name of resumeWith(T0, 1)) spend(budget, T0 + 200, name);
    expect(resumeWith(T0 + 1_000, 30)).toHaveLength(10);
  });

  test('go only to those who may send, if sends are slow', () => {
    const budget = newBudget({ limit: 100 });
    for (let index = 0; index < 10; index++) acquire(budget, T0, `slow-${index}`);
    budget.pause(T0, {});
    for (let index = 0; index < 30; index++) acquire(budget, T0 + 1, `w${index}`);
    const slowAtMs = T0 + SLOW_SEND_MS;
    expect(budget.resume(slowAtMs).wake).toEqual([]);
    for (let index = 0; index < 10; index++) settle(budget, slowAtMs + 1_000, `slow-${index}`);
    expect(budget.tick(slowAtMs + 1_001).wake).toEqual([]);
    expect(budget.status(slowAtMs + 1_001).waiting.filter(({ calledAt }) => calledAt !== undefined)).toHaveLength(10);
  });

  test('lapse without an answer, and the next waiter is invited too', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'x');
    acquire(budget, T0, 'dead');
    acquire(budget, T0, 'alive');
    const slotEndMs = T0 + HELD_MS;
    const first = budget.tick(slotEndMs + 1);
    expect(first.lookAgainAtMs).toBe(slotEndMs + 1 + 2_001);
    const called = budget.status(slotEndMs + 2_000).waiting;
    expect(called.map(({ calledAt }) => calledAt)).toEqual([new Date(slotEndMs + 1).toISOString(), undefined]);
    const second = budget.tick(slotEndMs + 1 + 2_001);
    expect(second.wake).toEqual(['dead', 'alive']);
    expect(acquire(budget, slotEndMs + 2_100, 'alive')).toMatchObject({ kind: 'granted' });
  });

  test('lapse later while answers are slow, so that the budget does not wake ever more waiters', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'x');
    let nowMs = T0;
    let count = 0;
    const answerAfter = (answerMs: number) => {
      const name = `answers-${count++}`;
      acquire(budget, nowMs, name);
      nowMs += HELD_MS;
      budget.tick(nowMs);
      nowMs += answerMs;
      spend(budget, nowMs, name);
    };
    /** How long the second in the queue waits for a slot that the first was invited to and does not take. */
    const secondWaitsMs = () => {
      const [first, second] = [`silent-${count++}`, `second-${count++}`];
      acquire(budget, nowMs, first);
      acquire(budget, nowMs, second);
      nowMs += HELD_MS;
      const invitedAtMs = nowMs;
      while (!budget.tick(nowMs).wake.includes(second)) nowMs += 500;
      budget.gone(nowMs, first);
      spend(budget, nowMs, second);
      return nowMs - invitedAtMs;
    };
    expect(secondWaitsMs()).toBe(2_500);
    for (let round = 0; round < 30; round++) answerAfter(6_000);
    expect(secondWaitsMs()).toBeGreaterThan(10_000);
    for (let round = 0; round < 30; round++) answerAfter(200_000);
    expect(secondWaitsMs()).toBeGreaterThan(25_000);
    expect(secondWaitsMs()).toBeLessThanOrEqual(30_500);
    for (let round = 0; round < 60; round++) answerAfter(100);
    expect(secondWaitsMs()).toBe(2_500);
  });

  test('leave the waiter its place when they lapse', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'x');
    acquire(budget, T0, 'slow');
    acquire(budget, T0, 'next');
    const slotEndMs = T0 + HELD_MS;
    budget.tick(slotEndMs + 1);
    budget.tick(slotEndMs + 5_000);
    expect(acquire(budget, slotEndMs + 5_001, 'slow')).toMatchObject({ kind: 'granted' });
  });

  test('are dropped with a waiter whose signal fails', () => {
    const budget = newBudget({ limit: 1 });
    spend(budget, T0, 'x');
    acquire(budget, T0, 'dead');
    expect(budget.gone(T0 + 1, 'dead')).toEqual({ wake: [], check: [] });
    expect(budget.status(T0 + 1).waitingTotal).toBe(0);
  });

  test('that lapsed are repeated after 1, 2, 4 … up to 15 minutes, and start over after an ask', () => {
    const budget = newBudget({ limit: 1 });
    acquire(budget, T0, 'x');
    acquire(budget, T0, 'silent');
    settle(budget, T0, 'x', { outcome: 'notSent' });
    const wakesFrom = (fromMs: number) => {
      const wakes: number[] = [];
      for (let nowMs = fromMs + 2_001; nowMs < fromMs + 3_600_000; nowMs += 1_000) {
        if (budget.tick(nowMs).wake.length > 0) wakes.push(Math.round((nowMs - fromMs) / 60_000));
      }
      return wakes;
    };
    expect(wakesFrom(T0)).toEqual([1, 2, 4, 8, 16, 31, 46]);
    acquire(budget, T0 + 3_600_000, 'silent', { hold: true });
    budget.tick(T0 + 3_600_000);
    acquire(budget, T0 + 3_600_000, 'y');
    acquire(budget, T0 + 3_600_000, 'silent');
    settle(budget, T0 + 3_600_000, 'y', { outcome: 'notSent' });
    expect(wakesFrom(T0 + 3_600_000).slice(0, 3)).toEqual([1, 2, 4]);
  });

  test('need no timer while nobody waits', () => {
    const budget = newBudget();
    expect(askOnce(budget, T0, ask('a', T0))[1].lookAgainAtMs).toBeUndefined();
    expect(settle(budget, T0, 'a').lookAgainAtMs).toBeUndefined();
    expect(finish(budget, T0, 'a').lookAgainAtMs).toBeUndefined();
  });
});

describe('the turn of a job', () => {
  test('belongs to one follow-up from its grant to its finish', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a', { jobId: 'j' });
    settle(budget, T0, 'a');
    const [answer, effects] = askOnce(budget, T0 + 1, ask('b', T0 + 1, { jobId: 'j' }));
    expect(answer).toMatchObject({ kind: 'wait', reason: 'job-busy' });
    expect(effects.check).toEqual(['a']);
    expect(budget.hear(T0 + 2, [{ kind: 'finish', workflowId: 'a', jobId: 'j', sendNumber: 1 }]).wake).toEqual(['b']);
    expect(acquire(budget, T0 + 3, 'b', { jobId: 'j' })).toMatchObject({ kind: 'granted' });
  });

  test('is not ended by a late settle of an earlier send', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a');
    expect(acquire(budget, T0 + 1_000, 'a', { sendNumber: 2, token: 'second' })).toMatchObject({ kind: 'granted' });
    settle(budget, T0 + 2_000, 'a', { outcome: 'notSent' });
    expect(acquire(budget, T0 + 3_000, 'b', { jobId: 'job-a' })).toMatchObject({ kind: 'wait', reason: 'job-busy' });
  });

  test('ends when its owner is found to be gone', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a', { jobId: 'j' });
    acquire(budget, T0 + 1, 'b', { jobId: 'j' });
    budget.gone(T0 + 2, 'a');
    expect(acquire(budget, T0 + 3, 'b', { jobId: 'j' })).toMatchObject({ kind: 'granted' });
  });

  test('has its owner checked at most once a minute', () => {
    const budget = newBudget();
    acquire(budget, T0, 'a', { jobId: 'j' });
    const checks = [1, 59_000, 60_001].map(
      (ms) => askOnce(budget, T0 + ms, ask('b', T0 + ms, { jobId: 'j' }))[1].check.length,
    );
    expect(checks).toEqual([1, 0, 1]);
  });

  test('holds up no follow-up of another job', () => {
    const budget = newBudget({ limit: 2 });
    acquire(budget, T0, 'a', { jobId: 'j' });
    acquire(budget, T0, 'b', { jobId: 'j' });
    expect(acquire(budget, T0, 'c')).toMatchObject({ kind: 'granted' });
  });

  test('passes on how it left the job', () => {
    const budget = newBudget();
    const lastJobSeen = { status: 'completed', prLinkHash: 'x', archivedAt: null };
    acquire(budget, T0, 'a', { jobId: 'j' });
    budget.hear(T0, [{ kind: 'finish', workflowId: 'a', jobId: 'j', sendNumber: 1, outcome: 'sent', lastJobSeen }]);
    expect(acquire(budget, T0, 'b', { jobId: 'j' })).toEqual({
      kind: 'granted',
      grantedAtMs: T0,
      ledgerSinceMs: 0,
      lastJobSeen,
    });
  });
});

describe('a pause', () => {
  test('after a 429 lets one probe through at its end, and that probe lifts it', () => {
    const budget = newBudget({ limit: 10 });
    acquire(budget, T0, 'a');
    settle(budget, T0, 'a', { outcome: 'limited' });
    const backoffMs = WINDOW_MS / 60;
    expect(acquire(budget, T0 + 1, 'b')).toMatchObject({ kind: 'wait', reason: 'paused' });
    expect(acquire(budget, T0 + backoffMs, 'b')).toMatchObject({ kind: 'granted' });
    expect(acquire(budget, T0 + backoffMs, 'c')).toMatchObject({ kind: 'wait', reason: 'paused' });
    settle(budget, T0 + backoffMs + 100, 'b');
    expect(acquire(budget, T0 + backoffMs + 200, 'c')).toMatchObject({ kind: 'granted' });
  });

  test('doubles with each probe that is refused, up to a quarter of the window', () => {
    const budget = newBudget({ limit: 100 });
    let nowMs = T0;
    const waits: number[] = [];
    for (let index = 0; index < 7; index++) {
      expect(acquire(budget, nowMs, `w${index}`)).toMatchObject({ kind: 'granted' });
      settle(budget, nowMs, `w${index}`, { outcome: 'limited' });
      const untilMs = Date.parse(budget.status(nowMs).paused?.until ?? '');
      waits.push((untilMs - nowMs) / 60_000);
      nowMs = untilMs;
    }
    expect(waits).toEqual([1, 2, 4, 8, 15, 15, 15]);
  });

  test('honours Retry-After', () => {
    const budget = newBudget({ limit: 10 });
    acquire(budget, T0, 'a');
    settle(budget, T0, 'a', { outcome: 'limited', retryAfterMs: 90_000 });
    const [since, until] = [T0, T0 + 90_000].map((ms) => new Date(ms).toISOString());
    expect(budget.status(T0).paused).toEqual({ reasons: ['limited'], since, until });
  });

  test('grows by one step, however many refusals come at once', () => {
    const budget = newBudget({ limit: 100 });
    const names = Array.from({ length: 10 }, (_, index) => `w${index}`);
    for (const name of names) acquire(budget, T0, name);
    for (const name of names) settle(budget, T0, name, { outcome: 'limited' });
    expect(budget.status(T0).paused?.until).toBe(new Date(T0 + WINDOW_MS / 60).toISOString());
  });

  test('lets another probe through if the first never settles', () => {
    const budget = newBudget({ limit: 10 });
    acquire(budget, T0, 'a');
    settle(budget, T0, 'a', { outcome: 'unauthorized' });
    const endMs = T0 + WINDOW_MS / 60;
    acquire(budget, endMs, 'dead-probe');
    expect(acquire(budget, endMs + 60_000, 'b')).toMatchObject({ kind: 'wait', reason: 'credentials' });
    expect(acquire(budget, endMs + 60_001, 'b')).toMatchObject({ kind: 'granted' });
  });

  test('makes the first waiter ask again within a minute, and all others after ten', () => {
    const budget = newBudget({ limit: 10 });
    acquire(budget, T0, 'a');
    settle(budget, T0, 'a', { outcome: 'limited', retryAfterMs: 600_000 });
    const waits = ['b', 'c', 'd'].map((name) => acquire(budget, T0, name));
    expect(waits.map((answer) => answer.kind === 'wait' && answer.waitMs)).toEqual([60_000, 600_200, 600_400]);
  });
});

describe('the asks of waiting follow-ups', () => {
  test('average at most seven an hour for 1,000 waiters of a paused budget', () => {
    const budget = newBudget({ limit: 100 });
    budget.pause(T0, {});
    expect(asksInAnHour(budget, waiters(1_000))).toBeLessThanOrEqual(7_000);
  });

  test('average at most seven an hour for 300 waiters of one busy job', () => {
    const budget = newBudget({ limit: 100 });
    acquire(budget, T0, 'owner', { jobId: 'j' });
    expect(asksInAnHour(budget, waiters(300, { jobId: 'j' }))).toBeLessThanOrEqual(2_100);
  });

  test('average at most seven an hour for 1,400 follow-ups, 400 of which find no place', () => {
    const budget = newBudget({ limit: 0 });
    expect(asksInAnHour(budget, waiters(1_400))).toBeLessThanOrEqual(9_800);
  });

  test('do not come every second while slow sends are in flight', () => {
    const budget = newBudget({ limit: 200 });
    for (let index = 0; index < 10; index++) acquire(budget, T0, `x${index}`);
    for (let index = 0; index < 10; index++) settle(budget, T0 + 25_000, `x${index}`);
    for (let index = 0; index < 10; index++) acquire(budget, T0 + 25_000, `sending-${index}`);
    const waits = waiters(100).map(({ workflowId }) => acquire(budget, T0 + 25_000, workflowId));
    for (const answer of waits) expect(answer).toMatchObject({ kind: 'wait', reason: 'slot' });
    expect(Math.min(...waits.map((answer) => (answer.kind === 'wait' ? answer.waitMs : 0)))).toBe(25_000);
  });
});

describe('a full queue', () => {
  test('keeps 100 of its 1,000 places free of the batch lane', () => {
    const budget = newBudget({ limit: 0 });
    const reasons = (count: number, lane: 'batch' | 'interactive') =>
      Array.from({ length: count }, (_, index) => {
        const answer = acquire(budget, T0, `${lane}-${index}`, { lane });
        return answer.kind === 'wait' ? answer.reason : answer.kind;
      });
    expect(reasons(950, 'batch').filter((reason) => reason === 'slot')).toHaveLength(900);
    expect(reasons(120, 'interactive').filter((reason) => reason === 'slot')).toHaveLength(100);
  });

  test('makes those outside ask again before a fast budget can send half of it', () => {
    const budget = newBudget({ limit: 1_000, windowMs: 180_000 });
    for (let index = 0; index < 1_000; index++) spend(budget, T0 + 180 * index, `x${index}`);
    const nowMs = T0 + 180_000;
    for (let index = 0; index < 1_012; index++) acquire(budget, nowMs - 2_001, `w${index}`);
    const outside = acquire(budget, nowMs, 'outside');
    expect(outside).toMatchObject({ kind: 'wait', reason: 'queue-full' });
    expect(outside.kind === 'wait' && outside.waitMs).toBeLessThanOrEqual(500 * 180 + 3_000);
  });
});

function waiters(count: number, more: Partial<AcquireRequest> = {}) {
  return Array.from({ length: count }, (_, index) => ({ workflowId: `waiter-${index}`, ...more }));
}

/**
 * The number of asks if each follow-up asks when it is told to and when it is woken. The budget ticks every 10 seconds.
 */
function asksInAnHour(budget: Budget, all: readonly (Partial<AcquireRequest> & { workflowId: string })[]): number {
  const dueAtMs = new Map(all.map(({ workflowId }, index) => [workflowId, T0 + index]));
  let asks = 0;
  for (let nowMs = T0; nowMs < T0 + 3_600_000; nowMs += 10_000) {
    for (const woken of budget.tick(nowMs).wake) dueAtMs.set(woken, nowMs);
    for (const more of all) {
      if ((dueAtMs.get(more.workflowId) ?? 0) > nowMs) continue;
      const [answer, { wake }] = askOnce(budget, nowMs, ask(more.workflowId, nowMs, more));
      asks += 1;
      dueAtMs.set(more.workflowId, nowMs + (answer.kind === 'wait' ? answer.waitMs : Infinity));
      for (const woken of wake) dueAtMs.set(woken, nowMs + 1);
    }
  }
  return asks;
}
