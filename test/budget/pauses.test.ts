import { describe, expect, it } from 'vitest';
import type { SendOutcome, WaitReason } from '../../src/contract/budget.js';
import { budgetStatus } from '../../src/budget/status.js';
import { iso } from '../../src/contract/durations.js';
import { Desk, followUp, HOUR, lastTurn, LEASE, MINUTE, mostInWindow, names, OVER, SECOND, T0 } from './support.js';

/** A project that a refusal just paused, with others in line. */
function paused(outcome: SendOutcome = 'limited', change: { retryAfterMs?: number } = {}): Desk {
  const desk = new Desk({ limit: 100 });
  desk.ask('a');
  desk.settle('a', outcome, change);
  desk.askAll(names('b', 12));
  return desk;
}

interface Life {
  /** What the service answers, `ms` after the start. */
  service: (name: string, ms: number) => SendOutcome;
  /** One asks every `everyMs`, from the start. */
  names: readonly string[];
  everyMs: number;
  hours: number;
  job?: (name: string) => string;
  retryAfterMs?: number;
}

/** Lets follow-ups come, send and end, or ask again after a refusal. */
function live({ service, names: all, everyMs, hours, job = (name) => name, retryAfterMs }: Life) {
  const desk = new Desk({ limit: 100 });
  const stepMs = 5 * SECOND;
  const sendNumbers = new Map<string, number>();
  const posts: { name: string; ms: number; outcome: SendOutcome }[] = [];
  let [pausedMs, next] = [0, 0];
  const answered: (() => void)[] = [];
  const post = (name: string) => {
    const ms = desk.nowMs - T0;
    const outcome = service(name, ms);
    posts.push({ name, ms, outcome });
    answered.push(() => {
      const sendNumber = sendNumbers.get(name)!;
      desk.settle(name, outcome, { sendNumber, ...(outcome !== 'sent' && retryAfterMs && { retryAfterMs }) });
      if (outcome === 'sent') return desk.end(name, { lastTurn });
      sendNumbers.set(name, sendNumber + 1);
      ask(name);
    });
  };
  const ask = (name: string) => {
    const sendNumber = sendNumbers.get(name) ?? 1;
    sendNumbers.set(name, sendNumber);
    if (desk.ask(name, { sendNumber, job: job(name) }).kind === 'granted') post(name);
  };
  for (let ms = 0; ms < hours * HOUR; ms += stepMs) {
    for (; next < all.length && next * everyMs <= ms; next += 1) ask(all[next]!);
    desk.wait(stepMs);
    if (desk.state.servicePause) pausedMs += stepMs;
    for (const settle of answered.splice(0)) settle();
    for (const name of desk.granted()) post(name);
  }
  const sent = posts.filter(({ outcome }) => outcome === 'sent');
  const of = (name: string) => posts.filter((each) => each.name === name).map(({ ms }) => ms);
  return { desk, sent, refused: posts.length - sent.length, pausedMs, of };
}

describe('a message that the service refuses alone, again and again,', () => {
  const refuseBad = (outcome: SendOutcome) => (name: string) => (name === 'bad' ? outcome : 'sent');
  const others = (count: number) => ({ names: ['bad', ...names('other', count)], everyMs: MINUTE });

  it.each([
    ['unauthorized', 'credentials', 5],
    ['payment', 'payment', 5],
    ['limited', 'limited', 60],
  ] as const)('as "%s" waits, and the others go on', (outcome, reason, mostMinutes) => {
    const { desk, sent, refused, pausedMs } = live({ service: refuseBad(outcome), ...others(600), hours: 8.1 });
    expect(sent.length).toBeGreaterThan(480);
    expect(refused).toBeLessThan(8 * 6 + 20);
    expect(pausedMs).toBeLessThan(mostMinutes * MINUTE);
    const [waiter] = desk.state.waiters;
    const answer = desk.ask('bad', { sendNumber: waiter!.sendNumber });
    const refusal = { reason, until: iso(waiter!.held!.untilMs) };
    expect(answer).toMatchObject({ kind: 'waiting', reason, pause: { by: 'service', until: refusal.until } });
    const [shown] = budgetStatus('project', desk.budget, desk.nowMs).waiting;
    expect(shown).toMatchObject({ workflowId: followUp('bad'), refusal });
    expect(shown).not.toHaveProperty('expectedAt');
    desk.told();
    desk.resume();
    expect(desk.granted()).toEqual(['bad']);
  });

  it('keeps no other from its job', () => {
    const job = (name: string) => (name === 'bad' || name.startsWith('same') ? 'x' : name);
    const all = ['bad', ...names('other', 30), ...names('same', 5)];
    const { sent } = live({ service: refuseBad('payment'), names: all, everyMs: MINUTE, hours: 1, job });
    const delaysMs = sent
      .filter(({ name }) => job(name) === 'x')
      .map(({ name, ms }) => ms - all.indexOf(name) * MINUTE);
    expect(delaysMs).toEqual(names('same', 5).map(() => 0));
  });

  it('is tried again when its Retry-After says', () => {
    const { of } = live({ service: refuseBad('payment'), ...others(500), hours: 9, retryAfterMs: HOUR });
    expect(of('bad').length).toBeLessThanOrEqual(9);
  });

  it('is not taken for a service that refuses all, and the other way round', () => {
    let accepted = 0;
    const night = (_: string, ms: number) => (ms > 12 * HOUR && ++accepted === 1 ? 'sent' : 'unauthorized');
    const { desk, refused } = live({ service: night, names: names('a', 30), everyMs: 0, hours: 18 });
    expect(refused).toBeLessThan(6 * 18 + 50);
    expect(desk.state.servicePause).toMatchObject({ reason: 'credentials' });
  });
});

describe('a refusal of the whole project', () => {
  it.each<[SendOutcome, WaitReason]>([
    ['limited', 'limited'],
    ['unauthorized', 'credentials'],
    ['payment', 'payment'],
  ])('such as "%s" makes all wait, lets one probe, and then the rest follow (G10)', (outcome, reason) => {
    const desk = paused(outcome);
    const pause = { by: 'service', until: iso(desk.nowMs + 30 * SECOND) };
    expect(desk.ask('c')).toMatchObject({ kind: 'waiting', reason, pause });
    expect(desk.nextGrants()).toEqual([30 * SECOND, ['b0']]);
    desk.wait(10 * SECOND);
    expect(desk.granted()).toEqual([]);
    desk.settle('b0');
    expect(desk.granted()).toEqual(names('b', 11).slice(1));
    expect(desk.budget.pauseOf(desk.nowMs)).toBeUndefined();
  });

  it.each(['limited', 'credentials', 'payment'] as const)(
    'that a read brought ("%s") pauses too, and its slot is free (G10)',
    (refusal) => {
      const desk = new Desk({ limit: 1 });
      desk.askAll(['a', 'b']);
      desk.settle('a', 'notSent', { refusal, retryAfterMs: MINUTE });
      expect(desk.budget.slotEnds()).toEqual([]);
      expect(desk.ask('c')).toMatchObject({ reason: refusal });
      expect(desk.nextGrants()).toEqual([MINUTE, ['b']]);
      desk.settle('b', 'notSent', { refusal });
      expect(desk.nextGrants()).toEqual([MINUTE, ['c']]);
    },
  );

  it('pauses for as long as Retry-After says, else twice as long after each probe, up to ten minutes', () => {
    const desk = paused('limited', { retryAfterMs: 45 * MINUTE });
    const lengths = names('probe', 7).map(() => {
      const [afterMs, [probe]] = desk.nextGrants();
      desk.settle(probe!, 'limited');
      return afterMs / SECOND;
    });
    expect(lengths).toEqual([45 * 60, 60, 120, 240, 480, 600, 600]);
  });

  it('is spent on few probes where the service always asks for another try too soon', () => {
    const desk = new Desk({ limit: 100 });
    desk.ask('a');
    for (let sendNumber = 1; desk.nowMs < T0 + HOUR; sendNumber++) {
      desk.settle('a', 'limited', { sendNumber, retryAfterMs: SECOND });
      if (desk.ask('a', { sendNumber: sendNumber + 1 }).kind !== 'granted') desk.nextGrants();
    }
    expect(desk.budget.slotEnds().length).toBeLessThan(20);
  });

  it('pauses no longer for sends under way that are refused too, and is not over for one that arrives', () => {
    const desk = new Desk({ limit: 100 });
    desk.askAll(names('a', 11));
    for (const name of names('a', 9)) desk.settle(name, 'payment');
    desk.settle('a9');
    expect(desk.nextGrants()).toEqual([30 * SECOND, ['a10']]);
  });

  it.each(['notSent', 'unknown', 'lost'] as const)('lets another probe where the first is "%s"', (outcome) => {
    const desk = paused();
    desk.nextGrants();
    if (outcome !== 'lost') desk.settle('b0', outcome);
    expect(desk.nextGrants()).toEqual([outcome === 'lost' ? LEASE : 0, ['b1']]);
  });

  it('pauses also if it is heard after its grant is over', () => {
    const desk = new Desk();
    desk.ask('a');
    desk.wait(OVER);
    desk.settle('a', 'unauthorized');
    expect(desk.ask('b')).toMatchObject({ kind: 'waiting', reason: 'credentials' });
    desk.resume();
    desk.settle('a', 'unauthorized');
    expect(desk.granted()).toEqual(['b']);
  });

  it('is one reason to wait, told once, until a probe succeeds (review 14)', () => {
    const desk = paused('unauthorized');
    desk.told();
    for (const name of names('b', 6)) {
      desk.wait(10 * MINUTE);
      expect(desk.granted()).toEqual([name]);
      desk.settle(name, 'unauthorized');
      desk.ask(name, { sendNumber: 2 });
      expect(desk.told()).toEqual([]);
    }
    desk.nextGrants();
    desk.settle('b6');
    expect(desk.granted()).toHaveLength(10);
  });

  it.each(['credentials', 'payment', 'limited'] as const)(
    'of a read before the ask ("%s") pauses all, and the pause is left to its probe (G10)',
    (refusal) => {
      const desk = new Desk();
      desk.ask('a');
      expect(desk.ask('b', { refusal, retryAfterMs: MINUTE })).toMatchObject({ kind: 'waiting', reason: refusal });
      desk.wait(MINUTE / 2);
      expect(desk.ask('c', { refusal })).toMatchObject({ kind: 'waiting', reason: refusal });
      expect(desk.nextGrants()).toEqual([MINUTE / 2, ['b']]);
      desk.settle('b');
      expect(desk.granted()).toEqual(['c']);
    },
  );

  it.each<[SendOutcome, string]>([
    ['unauthorized', 'b1'],
    ['payment', 'b1'],
    ['limited', 'b0'],
  ])('that may concern one job alone ("%s") is probed by another follow-up next: %s', (outcome, next) => {
    const desk = paused(outcome);
    desk.nextGrants();
    desk.settle('b0', outcome);
    desk.ask('b0', { sendNumber: 2 });
    expect(desk.nextGrants()[1]).toEqual([next]);
  });

  it('is probed at once when an operator resumes, and never while he pauses', () => {
    const desk = paused('payment');
    desk.pause();
    desk.wait(HOUR);
    expect(desk.granted()).toEqual([]);
    desk.resume();
    expect(desk.granted()).toEqual(['b0']);
    expect(desk.ask('c')).toMatchObject({ reason: 'payment' });
  });

  it('pauses once, however many reads are refused meanwhile', () => {
    const desk = new Desk();
    desk.ask('a', { refusal: 'credentials' });
    desk.wait(20 * SECOND);
    desk.ask('b', { refusal: 'credentials' });
    expect(desk.nextGrants()).toEqual([10 * SECOND, ['a']]);
  });

  it('pauses until the latest Retry-After', () => {
    const desk = new Desk();
    desk.askAll(['a', 'b']);
    desk.settle('a', 'limited', { retryAfterMs: 2 * MINUTE });
    desk.settle('b', 'limited', { retryAfterMs: SECOND });
    desk.ask('c');
    desk.told();
    expect(desk.nextGrants()).toEqual([2 * MINUTE, ['c']]);
  });
});

/** A service with a limit of its own. */
interface Service {
  limit: number;
  windowMs: number;
  kind: 'fixed' | 'rolling';
  hasRetryAfter: boolean;
}

/** Sends as fast as the budget lets, for some windows. Returns when messages were accepted and refused, from 0. */
function simulate(desk: Desk, { limit, windowMs, kind, hasRetryAfter }: Service, windows: number) {
  const startMs = desk.nowMs;
  const accepted: number[] = [];
  const refused: number[] = [];
  const answers: { atMs: number; name: string; outcome: SendOutcome; retryAfterMs?: number }[] = [];
  const sends = new Map<string, number>();
  const post = (name: string) => {
    const nowMs = desk.nowMs - startMs;
    const beginMs = kind === 'rolling' ? nowMs - windowMs : nowMs - (nowMs % windowMs) - 1;
    const counted = accepted.filter((atMs) => atMs > beginMs);
    const isRefused = counted.length >= limit;
    (isRefused ? refused : accepted).push(nowMs);
    const freeMs = (kind === 'rolling' ? (counted[0] ?? 0) : beginMs + 1) + windowMs - nowMs;
    const retry = isRefused && hasRetryAfter && { retryAfterMs: Math.ceil(freeMs / SECOND) * SECOND };
    answers.push({ atMs: desk.nowMs + 200, name, outcome: isRefused ? 'limited' : 'sent', ...retry });
  };
  const ask = (name: string) => {
    const sendNumber = (sends.get(name) ?? 0) + 1;
    sends.set(name, sendNumber);
    if (desk.ask(name, { sendNumber }).kind === 'granted') post(name);
  };
  while (desk.nowMs < startMs + windows * windowMs) {
    const due = answers.filter(({ atMs }) => atMs <= desk.nowMs);
    for (const { name, outcome, ...change } of answers.splice(0, due.length)) {
      desk.settle(name, outcome, change);
      if (outcome === 'sent') desk.end(name);
      else ask(name);
    }
    while (desk.state.waiters.length < 15) ask(`f${sends.size}`);
    desk.granted().forEach(post);
    desk.wait(Math.min(desk.budget.nextChangeMs(desk.nowMs) ?? Infinity, answers[0]?.atMs ?? Infinity) - desk.nowMs);
    desk.granted().forEach(post);
  }
  return { accepted, refused };
}

describe('a service with a lower limit than the budget', () => {
  const windowMs = 30 * SECOND;
  const cases = (['fixed', 'rolling'] as const).flatMap((kind) =>
    [true, false].map((hasRetryAfter) => ({ limit: 10, windowMs, kind, hasRetryAfter })),
  );

  it.each(cases)('refuses ever fewer ($kind window, Retry-After: $hasRetryAfter) (W15)', (service) => {
    const windows = 20;
    const { accepted, refused } = simulate(new Desk({ limit: 20, windowMs, marginMs: 500 }), service, windows);
    const inWindows = (from: number, to: number) =>
      refused.filter((atMs) => atMs >= from * windowMs && atMs < to * windowMs).length;
    expect(inWindows(0, 1)).toBe(10);
    expect(inWindows(1, 8)).toBeLessThanOrEqual(3);
    expect(inWindows(8, windows)).toBeLessThanOrEqual(1);
    expect(accepted.length).toBeGreaterThan(0.85 * 10 * windows);
    expect(mostInWindow([...accepted, ...refused], windowMs)).toBeLessThanOrEqual(20);
  });

  it('is not learned for long from a passing 429 in the middle of an hour (W15)', () => {
    const desk = new Desk({ limit: 100 });
    for (const name of names('a', 40)) {
      desk.send(name);
      desk.wait(45 * SECOND);
    }
    desk.askAll(['refused']);
    desk.settle('refused', 'limited');
    expect(desk.budget.limit).toBe(40);
    desk.ask('probe');
    expect(desk.nextGrants()).toEqual([30 * SECOND, ['probe']]);
    desk.settle('probe');
    expect(desk.budget.limit).toBe(100);
  });

  it('is not learned from a short burst', () => {
    const desk = new Desk({ limit: 100 });
    desk.askAll(names('a', 10));
    desk.settle('a0');
    for (const name of names('a', 10).slice(1)) desk.settle(name, 'limited');
    expect(desk.budget.limit).toBe(100);
  });

  it('is tried again after each window, by twice as much', () => {
    const desk = new Desk();
    for (const name of names('a', 3)) desk.send(name);
    desk.ask('refused');
    desk.settle('refused', 'limited');
    const limits = names('window', 3).map(() => {
      desk.wait(HOUR);
      return desk.budget.limit;
    });
    expect(limits).toEqual([4, 6, 10]);
  });

  it.each(['setLimit', 'resume'] as const)('is forgotten at the order "%s"', (order) => {
    const desk = new Desk();
    for (const name of names('a', 3)) desk.send(name);
    desk.ask('refused');
    desk.settle('refused', 'limited');
    expect(desk.budget.limit).toBe(3);
    if (order === 'resume') desk.resume();
    else desk.setLimit({});
    expect(desk.budget.limit).toBe(10);
  });

  it('hears nothing new from a refusal that is told again after the next send', () => {
    const desk = new Desk();
    desk.ask('a');
    desk.settle('a', 'limited');
    desk.wait(MINUTE);
    desk.ask('a', { runId: 'second', mayHaveSent: true, sendNumber: 2 });
    desk.settle('a');
    desk.settle('a', 'limited', { runId: 'run-of-a', sendNumber: 1 });
    expect(desk.state.servicePause).toBeUndefined();
  });

  it('counts the refusals of one pause once', () => {
    const desk = new Desk({ limit: 20 });
    desk.askAll(names('under-way', 6));
    for (const name of names('under-way', 4)) desk.settle(name);
    for (const name of ['under-way4', 'under-way5']) desk.settle(name, 'limited');
    expect(desk.state.learned).toMatchObject({ limit: 4, refusals: 1 });
  });

  it('raises the learned limit if more is accepted without a probe', () => {
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
