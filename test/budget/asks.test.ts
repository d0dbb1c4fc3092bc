import { describe, expect, it } from 'vitest';
import { jobKey } from '../../src/budget/state.js';
import { trim } from '../../src/budget/trim.js';
import {
  busyJob,
  Desk,
  followUp,
  HOUR,
  lastTurn,
  LEASE,
  MINUTE,
  names,
  OVER,
  resetRun,
  SECOND,
  SETTLE,
  T0,
} from './support.js';

describe('an ask that comes again', () => {
  it('gets the same grant, with its time and lease, and a lease that has passed once the send is over (review 7)', () => {
    const desk = new Desk();
    const first = desk.ask('a');
    expect(first).toMatchObject({ kind: 'granted', grantedAtMs: T0, leaseMs: LEASE, overAtMs: T0 + OVER });
    desk.wait(SECOND);
    expect(desk.ask('a')).toEqual(first);
    desk.wait(OVER);
    expect(desk.ask('a')).toEqual({ ...first, leaseMs: 1 });
    expect(desk.budget.slotEnds()).toHaveLength(1);
  });

  it('gets what is known of the send, since its answer and not its grant (review N8)', () => {
    const desk = new Desk();
    desk.ask('a');
    desk.wait(300);
    desk.settle('a');
    expect(desk.ask('a')).toEqual({
      ...{ kind: 'known', runId: 'run-of-a', grantedTo: 'run-of-a', sendNumber: 1, outcome: 'sent', isLatest: true },
      ...{ grantedAtMs: T0, outcomeAtMs: T0 + 300, overAtMs: T0 + OVER, isSameMessage: true, remembersAll: false },
    });
  });

  it('gets nothing with another message, or after the end of its run', () => {
    const desk = new Desk();
    desk.send('a');
    expect(desk.ask('a', { messageTag: 'another' })).toEqual({ kind: 'otherMessage' });
    desk.end('a');
    expect(desk.ask('a')).toEqual({ kind: 'ended' });
  });
});

describe('a run that replaces another', () => {
  it('is told whether the budget remembers all that was sent since it started', () => {
    const desk = new Desk();
    desk.ask('a');
    for (const [startedAtMs, remembersAll] of [[T0, false] as const, [T0 + 1, true] as const]) {
      expect(desk.ask('a', { ...resetRun, startedAtMs })).toMatchObject({ kind: 'known', remembersAll });
    }
  });

  it('is told who was granted the send, and that it is the one that asks (review N2)', () => {
    const desk = new Desk();
    desk.ask('a');
    const known = { kind: 'known', runId: 'new', grantedTo: 'run-of-a', sendNumber: 1, outcome: null };
    expect(desk.ask('a', resetRun)).toMatchObject(known);
    expect(desk.budget.slotEnds()).toHaveLength(1);
  });

  it.each([
    ['waiting', { limit: 0 }],
    ['full', { limit: 0, places: { most: 0, mostForJob: 10 } }],
    ['granted', {}],
  ])('is named in the answer "%s" (review N2)', (kind, settings) => {
    expect(new Desk(settings).ask('a', { ...resetRun, sendNumber: 4, startedAtMs: T0 + 1 })).toMatchObject({
      ...{ kind, runId: 'new', sendNumber: 4 },
    });
  });

  it('was never granted anything if it began within the memory of the budget and is not in it (review 10)', () => {
    expect(new Desk().ask('a', { ...resetRun, startedAtMs: T0 + 1 }).kind).toBe('granted');
    const never = { kind: 'known', grantedTo: '', outcome: 'unknown', isLatest: false };
    expect(new Desk().ask('a', resetRun)).toMatchObject(never);
  });

  it('takes over the place in line, with the grant that follows (review 10)', () => {
    const desk = new Desk({ limit: 0 });
    desk.ask('a', { startedAtMs: T0 + 1 });
    desk.ask('a', resetRun);
    desk.setLimit({ limit: 1 });
    expect(desk.told()).toMatchObject([{ answer: { kind: 'granted', runId: 'new' } }]);
  });

  it('keeps that place where the run before says late that it has ended', () => {
    const desk = new Desk({ limit: 0 });
    desk.ask('a', { startedAtMs: T0 + 1 });
    desk.ask('a', resetRun);
    desk.end('a', { runId: 'run-of-a' });
    expect(desk.state.waiters).toMatchObject([{ runId: 'new' }]);
  });

  it('keeps that place where a message to the run before finds nobody', () => {
    const desk = new Desk({ limit: 0 });
    desk.ask('a', { startedAtMs: T0 + 1 });
    desk.pause();
    const toRunBefore = desk.told();
    desk.ask('a', resetRun);
    desk.miss(toRunBefore);
    expect(desk.state.waiters).toMatchObject([{ runId: 'new' }]);
  });

  it('is granted the next send where the one before was never used (review N6)', () => {
    const desk = new Desk({ limit: 1 });
    desk.ask('a');
    expect(desk.ask('a', resetRun)).toMatchObject({ kind: 'known', outcome: null });
    desk.settle('a', 'notSent', { runId: 'run-of-a' });
    expect(desk.ask('a')).toMatchObject({ kind: 'known', outcome: 'notSent' });
    expect(desk.ask('a', { sendNumber: 2 })).toMatchObject({ kind: 'granted', runId: 'new' });
  });

  it('takes the turn of its job again while nobody else was granted it (simulation F1)', () => {
    const desk = new Desk();
    desk.send('a', { job: 'x' });
    desk.end('a');
    expect(desk.ask('a', resetRun)).toMatchObject({ outcome: 'sent', isLatest: true });
    expect(desk.ask('b', { job: 'x' })).toMatchObject({ reason: 'job-busy' });
  });

  it('hears that the turn is of another, and leaves it there (simulation F1, G2)', () => {
    const desk = busyJob();
    desk.end('a');
    expect(desk.granted()).toEqual(['b']);
    expect(desk.ask('a', resetRun)).toMatchObject({ outcome: 'sent', isLatest: false });
    desk.end('a');
    expect(desk.ask('c', { job: 'x' })).toMatchObject({ reason: 'job-busy' });
  });

  it('takes no turn where its message was not delivered, and has none for sure while the budget counts (G2)', () => {
    const desk = new Desk({ counts: true });
    desk.settle('sent');
    desk.settle('limited', 'limited');
    expect(desk.ask('sent', resetRun)).toMatchObject({ kind: 'known', isLatest: false });
    desk.book([]);
    desk.ask('limited', resetRun);
    expect(desk.state.turns[jobKey(followUp('limited'))]?.owner).toBeUndefined();
  });
});

describe('a refused send that a reset run tells again, after a later one was delivered', () => {
  const told = { runId: 'first', sendNumber: 1, retryAfterMs: SECOND };
  const second = { runId: 'second', mayHaveSent: true, sendNumber: 2 };
  const third = { ...second, runId: 'third' };
  /** A follow-up whose first send is refused, and whose second one is delivered. */
  const deliver = (desk: Desk, run: object = {}) => {
    desk.ask('a', { runId: 'first' });
    desk.settle('a', 'limited', told);
    desk.wait(2 * SECOND);
    expect(desk.ask('a', { sendNumber: 2, ...run }).kind).toBe('granted');
    desk.settle('a');
    desk.wait(MINUTE);
  };

  it.each<[string, () => Desk, object]>([
    ['by its own run', () => new Desk(), {}],
    ['by a run that was reset before', () => new Desk(), second],
    ['in a budget that has counted since', () => new Desk({ counts: true }), {}],
  ])('is not the latest one: %s', (_, create, run) => {
    const desk = create();
    if (desk.state.isCounting) desk.book([{ workflowId: followUp('a'), isRunning: true }]);
    else deliver(desk, run);
    desk.settle('a', 'limited', told);
    expect(desk.ask('a', third)).toMatchObject({ kind: 'known', sendNumber: 2 });
  });

  it('is not the latest one where the budget has forgotten both', () => {
    const desk = new Desk();
    deliver(desk);
    desk.state.known = {};
    desk.state.rememberedSinceMs = desk.nowMs;
    desk.settle('a', 'limited', told);
    expect(desk.ask('a', third)).toMatchObject({ kind: 'known', grantedTo: '' });
  });
});

describe('the turn of a job', () => {
  it('that ends in doubt is kept for as long as the end says (review 3)', () => {
    const desk = busyJob();
    desk.end('a', { turnUntilMs: desk.nowMs + 5 * MINUTE });
    expect(desk.nextGrants()).toEqual([5 * MINUTE, ['b']]);
  });

  it('that lives is kept for 3,000 jobs, before those that are over (review 4)', () => {
    const desk = new Desk();
    const turns = (all: string[], turn: object) => all.map((job) => [job, { latest: job, ...turn }]);
    const live = turns(names('live', 2_990), { owner: 'owner' });
    desk.state.turns = Object.fromEntries([...live, ...turns(names('over', 600), {})]);
    trim(desk.state);
    expect(desk.state.turns).toMatchObject(Object.fromEntries(live));
    expect(Object.keys(desk.state.turns).length).toBeLessThanOrEqual(3_000);
  });

  it('ends with how the job looked, and each grant after it says so (review 5)', () => {
    const desk = new Desk();
    desk.send('a', { job: 'x' });
    desk.end('a', { lastTurn });
    for (const name of ['b', 'c']) {
      expect(desk.ask(name, { job: 'x' })).toMatchObject({ kind: 'granted', lastTurn });
      desk.end(name);
    }
  });

  it.each(['notSent', 'limited', 'unauthorized', 'payment', 'rejected'] as const)(
    'is free after "%s", also if the grant is over by then (review N1)',
    (outcome) => {
      const desk = new Desk();
      desk.askAll(['a', 'b'], { job: 'x' });
      desk.wait(OVER);
      desk.settle('a', outcome);
      expect(desk.nextGrants()[1]).toEqual(['b']);
    },
  );

  it('is kept until no byte arrives and the settle time is over where another run ends (review N7)', () => {
    const desk = new Desk();
    desk.askAll(['a', 'b', 'c'], { job: 'x' });
    desk.end('a', { runId: 'another' });
    expect(desk.nextGrants()).toEqual([OVER + SETTLE, ['b']]);
    desk.end('b', { runId: 'another', lastTurn });
    expect(desk.granted()).toEqual(['c']);
  });

  it('is kept as long from when no byte arrives where its owner is gone without an answer (review N8)', () => {
    const desk = new Desk();
    desk.askAll(['a', 'b'], { job: 'x' });
    desk.miss([{ workflowId: followUp('a', 'x') }]);
    expect(desk.nextGrants()).toEqual([OVER + SETTLE, ['b']]);
  });

  it('is of no other job, whatever its id looks like, and keeps its order (review N23)', () => {
    const desk = new Desk();
    const jobs = ['2', '1', '__proto__', 'constructor', '0', 'toString'];
    for (const job of jobs) desk.send(`to-${job}`, { job });
    desk.rebuild();
    const owners = Object.values(desk.state.turns).map(({ owner }) => owner);
    expect(owners).toEqual(jobs.map((job) => followUp(`to-${job}`, job)));
    for (const job of jobs) expect(desk.ask(`second-to-${job}`, { job })).toMatchObject({ reason: 'job-busy' });
  });

  it('is kept as long as its follow-up said, also if a message does not find it', () => {
    const desk = busyJob();
    desk.end('a', { turnUntilMs: T0 + 30 * MINUTE });
    desk.told();
    desk.miss([{ workflowId: followUp('a', 'x') }]);
    expect(desk.nextGrants()).toEqual([30 * MINUTE, ['b']]);
  });

  it('is not ended by a late word of a run that was reset since', () => {
    const desk = busyJob();
    desk.ask('a', resetRun);
    desk.end('a', { runId: 'run-of-a', lastTurn });
    expect(desk.granted()).toEqual([]);
    desk.end('a', { lastTurn });
    expect(desk.granted()).toEqual(['b']);
  });

  it('is not taken by a follow-up whose send the budget did not grant', () => {
    const desk = busyJob();
    const workflowId = followUp('stranger', 'x');
    desk.settle('stranger', 'sent', { workflowId });
    desk.end('stranger', { workflowId });
    expect(desk.granted()).toEqual([]);
  });

  it('is kept for four hours at most, whatever a signal says', () => {
    const desk = busyJob();
    desk.end('a', { turnUntilMs: T0 + 20 * HOUR });
    expect(desk.nextGrants()).toEqual([4 * HOUR, ['b']]);
  });

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

describe('a follow-up that is gone', () => {
  it('keeps the slot of a grant that was pushed and then answered an ask (review N15)', () => {
    const desk = new Desk({ limit: 1 });
    desk.askAll(['a', 'b']);
    desk.settle('a', 'notSent');
    const pushed = desk.told();
    expect(desk.ask('b').kind).toBe('granted');
    desk.miss(pushed);
    expect(desk.budget.slotEnds()).toHaveLength(1);
  });

  it('leaves its place in line, and a grant that it never used, with its end (review N17)', () => {
    const desk = new Desk({ limit: 1 });
    desk.askAll(['a', 'b', 'c']);
    desk.end('b');
    desk.end('a');
    expect(desk.granted()).toEqual(['c']);
  });

  it('leaves no place that an ask takes again after its send was over, but keeps another (review 17)', () => {
    const desk = new Desk({ counts: true });
    desk.askAll(['sent', 'ended', 'earlier', 'otherRun']);
    desk.ask('later', { sendNumber: 2 });
    desk.settle('sent');
    desk.end('ended');
    desk.settle('earlier', 'limited', { sendNumber: 3 });
    desk.settle('later', 'limited', { sendNumber: 1 });
    desk.settle('otherRun', 'limited', { runId: 'old' });
    expect(desk.state.waiters.map(({ workflowId }) => workflowId)).toEqual([followUp('otherRun'), followUp('later')]);
  });

  it('is asked for a sign of life while others wait for its job, at once and every ten minutes (review N19, N26)', () => {
    const desk = new Desk();
    desk.askAll(['a', 'unasked']);
    const signs = names('b', 5).flatMap((name, index) => {
      desk.ask(name, { job: 'a' });
      desk.wait(4 * MINUTE);
      return desk.told().map((message) => [index, message]);
    });
    const sign = { workflowId: followUp('a') };
    expect(signs).toEqual([
      [0, sign],
      [2, sign],
    ]);
    expect(desk.budget.nextChangeMs(desk.nowMs)).toBe(T0 + 22 * MINUTE);
  });

  it('leaves its job to those who wait, a settle time after it is missed (review N19)', () => {
    const desk = busyJob();
    desk.wait(LEASE + OVER);
    desk.miss(desk.told());
    expect(desk.nextGrants()).toEqual([SETTLE, ['b']]);
  });
});
