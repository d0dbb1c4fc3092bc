import { describe, expect, it } from 'vitest';
import { countOnce } from '../../src/budget/counting.js';
import type { SendOutcome } from '../../src/contract/index.js';
import { HOUR, MINUTE, SECOND } from '../support/times.js';
import {
  afterReset,
  closed,
  followUp,
  HELD,
  jobAtEnd,
  LEASE,
  MARGIN,
  nameOf,
  names,
  OVER,
  running,
  SETTLE,
  T0,
  TestBudget,
} from './support.js';

/** The budget no longer knows whether it remembers all sends, for example after a reset of its own. */
function startCounting(budget: TestBudget): void {
  budget.state.isCounting = true;
}

describe('a budget that counts', () => {
  it('grants nothing, and replies why', () => {
    const budget = new TestBudget({ isCounting: true });
    expect(budget.ask('a')).toMatchObject({ kind: 'waiting', reason: 'counting', position: 1 });
    budget.advance(24 * HOUR);
    expect(budget.granted()).toEqual([]);
  });

  it('grants the slots that the listed sends leave once it has booked them', () => {
    const budget = new TestBudget({ isCounting: true, limit: 4 });
    budget.askAll(names('b', 5));
    budget.advance(MINUTE);
    budget.book([closed('a1'), closed('a2')], { others: 1 });
    expect(budget.granted()).toEqual(['b0']);
    budget.report('b0');
    expect(budget.nextGrants()).toEqual([HELD, ['b1', 'b2', 'b3', 'b4']]);
  });

  it('wakes a follow-up that loses its place in line because it is listed', () => {
    const budget = new TestBudget({ isCounting: true });
    expect(budget.ask('a')).toMatchObject({ kind: 'waiting', reason: 'counting' });
    expect(budget.signals()).toEqual([]);
    budget.book([closed('a')]);
    expect(budget.signals()).toEqual([{ workflowId: followUp('a') }]);
    expect(budget.line()).toEqual([]);
  });

  it('leaves a listed follow-up its place in line if its message waits to be sent again', () => {
    const budget = new TestBudget({ isCounting: true, limit: 1 });
    budget.ask('a');
    budget.book([{ ...running('a'), isWaiting: true, sentAtMs: T0 - MINUTE }]);
    expect(budget.line()).toEqual(['a']);
    expect(budget.woken()).toEqual([]);
  });
});

describe('the slots of listed sends', () => {
  it.each(['sent', 'rejected'] as const)(
    'are not used for a closed follow-up if the budget remembers the outcome "%s"',
    (outcome) => {
      const budget = new TestBudget();
      budget.ask('a');
      budget.report('a', outcome);
      startCounting(budget);
      budget.book([closed('a')]);
      expect(budget.slotEndsMs()).toEqual([HELD]);
    },
  );

  it('are not used for a running follow-up if the budget remembers the outcome "sent"', () => {
    const budget = new TestBudget();
    budget.send('a');
    startCounting(budget);
    budget.book([running('a')]);
    expect(budget.usedSlots()).toBe(1);
  });

  it.each<[outcome: SendOutcome, slotEndsMs: number[]]>([
    ['notSent', []],
    ['limited', [HELD]],
    ['unknown', [OVER + HELD]],
  ])('are used again after the outcome "%s": a later send may be forgotten', (outcome, slotEndsMs) => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.report('a', outcome);
    budget.advance(OVER + MINUTE);
    startCounting(budget);
    budget.book([closed('a')]);
    expect(budget.slotEndsMs()).toEqual([...slotEndsMs, OVER + MINUTE + HELD]);
  });

  it('replace those of grants that may be under way', () => {
    const budget = new TestBudget();
    budget.ask('a');
    startCounting(budget);
    budget.book([closed('a')]);
    expect(budget.slotEndsMs()).toEqual([HELD]);
  });

  it('are used beside those of grants that are over', () => {
    const budget = new TestBudget();
    budget.ask('a');
    // No event ends the grant before the count does.
    budget.nowMs += 30 * MINUTE;
    startCounting(budget);
    budget.book([closed('a')]);
    expect(budget.slotEndsMs()).toEqual([OVER + HELD, 30 * MINUTE + HELD]);
  });

  it('are used again by the next count', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([closed('a')]);
    budget.nowMs += 30 * MINUTE;
    startCounting(budget);
    budget.book([closed('a')]);
    expect(budget.slotEndsMs()).toEqual([HELD, 30 * MINUTE + HELD]);
  });

  it('stay in use although the follow-up reports its end', () => {
    const budget = new TestBudget({ limit: 1 });
    budget.ask('a', { drainMs: 2 * MINUTE });
    budget.advance(LEASE);
    startCounting(budget);
    budget.book([running('a')]);
    budget.end('a');
    expect(budget.ask('b')).toMatchObject({ kind: 'waiting', reason: 'slot' });
  });

  it('stay in use although the follow-up reports that the service refused a send', () => {
    const budget = new TestBudget();
    budget.ask('a', { drainMs: 2 * MINUTE });
    budget.advance(LEASE);
    startCounting(budget);
    budget.book([running('a')]);
    budget.report('a', 'limited');
    expect(budget.slotEndsMs()).toEqual([LEASE + HELD, LEASE + HELD]);
  });

  it('are used for a window after the last byte can arrive', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([closed('a')], { others: 1, drainMs: MINUTE });
    expect(budget.slotEndsMs()).toEqual([MINUTE + HELD, MINUTE + HELD]);
  });

  it('are used for the lease, the drain time and a window if the time of the send is known', () => {
    const budget = new TestBudget({ isCounting: true });
    const send = { ...running('a'), sentAtMs: T0 - 20 * MINUTE };
    budget.book([send], { leaseMs: 2 * MINUTE, drainMs: MINUTE });
    expect(budget.slotEndsMs()).toEqual([-20 * MINUTE + 3 * MINUTE + MARGIN + HELD]);
  });

  it('are free again if the agents still work on messages of yesterday', () => {
    const budget = new TestBudget({ isCounting: true, limit: 3 });
    const sends = names('a', 4).map((name) => ({ ...running(name), sentAtMs: T0 - 20 * HOUR }));
    budget.book(sends, { leaseMs: MINUTE, drainMs: MINUTE });
    expect(budget.askAll(['x', 'y', 'z'])).toEqual(['granted', 'granted', 'granted']);
  });

  it('are used for a message that waits to be sent again', () => {
    const budget = new TestBudget({ isCounting: true, limit: 1 });
    budget.book([{ ...running('a'), isWaiting: true, sentAtMs: T0 - MINUTE }]);
    expect(budget.ask('b')).toMatchObject({ kind: 'waiting', reason: 'slot' });
  });
});

describe('the list of sends for people', () => {
  it('shows a listed send as made now', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([closed('a')], { drainMs: MINUTE });
    expect(budget.state.shownSends).toMatchObject([{ workflowId: followUp('a'), grantedAtMs: T0 }]);
  });

  it('shows the time of a listed send if it is known', () => {
    const budget = new TestBudget({ isCounting: true });
    const send = { ...running('a'), sentAtMs: T0 - 20 * MINUTE };
    budget.book([send], { leaseMs: 2 * MINUTE, drainMs: MINUTE });
    expect(budget.state.shownSends).toMatchObject([{ workflowId: followUp('a'), grantedAtMs: T0 - 20 * MINUTE }]);
  });
});

describe('the list of sends', () => {
  const run = (name: string, closedAtMs: number, sentAtMs?: number, isWaiting = false) => ({
    ...{ workflowId: followUp(name), isRunning: closedAtMs === Infinity, closedAtMs, isWaiting },
    ...(sentAtMs !== undefined && { sentAtMs }),
  });
  const shown = (found: Parameters<typeof countOnce>[0]) =>
    countOnce(found).map((each) => [nameOf(each), each.isRunning, each.sentAtMs]);

  it('has each send once, of the newest run', () => {
    const [sentAtMs, later] = [T0 - HOUR, T0 - MINUTE];
    const found = [
      run('a', T0, sentAtMs),
      run('a', Infinity, sentAtMs),
      run('b', T0, sentAtMs),
      run('b', later, sentAtMs),
    ];
    expect(shown(found)).toEqual([
      ['b', false, sentAtMs],
      ['a', true, sentAtMs],
    ]);
  });

  it('has each of two sends with the same key', () => {
    const found = [run('a', T0, T0 - HOUR), run('a', Infinity, T0 - MINUTE)];
    expect(shown(found)).toEqual([
      ['a', false, T0 - HOUR],
      ['a', true, T0 - MINUTE],
    ]);
  });

  it('has a send as one of the run before the reset if the new run waits again, which is to be woken', () => {
    const found = [run('a', Infinity, T0 - HOUR, true), run('a', T0, T0 - HOUR)];
    expect(shown(found)).toEqual([
      ['a', true, undefined],
      ['a', false, T0 - HOUR],
    ]);
  });
});

describe('the reply to a listed follow-up', () => {
  it('says "unknown", and uses no second slot', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([closed('a')]);
    expect(budget.ask('a', afterReset)).toMatchObject({ kind: 'earlierSend', outcome: 'unknown', listedAtMs: T0 });
    expect(budget.usedSlots()).toBe(1);
  });

  it('says "unknown" to a run that was reset before its second send', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([running('a')]);
    const reply = budget.ask('a', { ...afterReset, sendNumber: 2 });
    expect(reply).toMatchObject({ kind: 'earlierSend', outcome: 'unknown' });
  });

  it('says "unknown" although the agent works on a message of yesterday', () => {
    const budget = new TestBudget({ isCounting: true });
    const send = { ...running('a'), sentAtMs: T0 - 20 * HOUR };
    budget.book([send], { leaseMs: MINUTE, drainMs: MINUTE });
    expect(budget.ask('a', afterReset)).toMatchObject({ kind: 'earlierSend', outcome: 'unknown' });
  });

  it.each(['notSent', 'limited', 'unknown'] as const)(
    'says "unknown" after the outcome "%s": a later send may be forgotten',
    (outcome) => {
      const budget = new TestBudget();
      budget.ask('a');
      budget.report('a', outcome);
      budget.advance(OVER + MINUTE);
      startCounting(budget);
      budget.book([closed('a')]);
      expect(budget.ask('a', afterReset)).toMatchObject({ kind: 'earlierSend', outcome: 'unknown' });
    },
  );

  it('says "unknown" although the run before reports its end', () => {
    const budget = new TestBudget();
    budget.ask('a', { drainMs: 2 * MINUTE });
    budget.advance(LEASE);
    startCounting(budget);
    budget.book([running('a')]);
    budget.end('a');
    const reply = budget.ask('a', { ...afterReset, sendNumber: 2 });
    expect(reply).toMatchObject({ kind: 'earlierSend', outcome: 'unknown' });
  });

  it('says "unknown" although the run before reports that its send was refused', () => {
    const budget = new TestBudget();
    budget.ask('a', { drainMs: 2 * MINUTE });
    budget.advance(LEASE);
    startCounting(budget);
    budget.book([running('a')]);
    budget.report('a', 'limited');
    const reply = budget.ask('a', { ...afterReset, sendNumber: 2 });
    expect(reply).toMatchObject({ kind: 'earlierSend', outcome: 'unknown' });
  });

  it('says once to each run that it may have sent, and then grants its next send', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([running('a')]);
    const second = budget.ask('a', { runId: 'second-run', mayHaveSent: true });
    expect(second).toMatchObject({ kind: 'earlierSend', sendNumber: 1 });
    const third = budget.ask('a', { runId: 'third-run', sendNumber: 2 });
    expect(third).toMatchObject({ kind: 'earlierSend', sendNumber: 2 });
    expect(budget.ask('a', { sendNumber: 3 })).toMatchObject({ kind: 'granted', runId: 'third-run' });
  });

  it('says that it may have made the send for which it stood in line', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.report('a', 'limited');
    budget.ask('a', { sendNumber: 2 });
    budget.book([running('a')]);
    expect(budget.ask('a')).toMatchObject({ kind: 'earlierSend', sendNumber: 2, outcome: 'unknown' });
  });

  it('is a grant with a further slot if its message waits to be sent again', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([{ ...running('a'), isWaiting: true, sentAtMs: T0 - MINUTE }]);
    expect(budget.ask('a', { sendNumber: 2 })).toMatchObject({ kind: 'granted' });
    expect(budget.usedSlots()).toBe(2);
  });

  it('is "otherMessage" if another message is known to have stood in line', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.ask('a');
    budget.book([closed('a')]);
    expect(budget.ask('a', { messageTag: 'another' })).toEqual({ kind: 'otherMessage' });
  });

  it('says "unknown" to the second send although the first is reported as "unknown"', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([running('a')]);
    budget.report('a', 'unknown');
    const reply = budget.ask('a', { ...afterReset, sendNumber: 2 });
    expect(reply).toMatchObject({ kind: 'earlierSend', sendNumber: 2, outcome: 'unknown' });
  });

  it('is a grant of the second send if the first is reported as "sent"', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([running('a')]);
    budget.report('a', 'sent');
    expect(budget.ask('a', { ...afterReset, sendNumber: 2 })).toMatchObject({ kind: 'granted' });
  });

  it('says "superseded" if the same workflow id is used for another message', () => {
    const budget = new TestBudget();
    budget.book([closed('a')]);
    expect(budget.ask('a', { messageTag: 'another' })).toMatchObject({ kind: 'earlierSend', verdict: 'superseded' });
  });

  // Either may have been reset, and have sent after the other.
  it('says "superseded" if another follow-up to its job is listed', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([closed('a', 'x'), running('b', 'x')]);
    const ask = { job: 'x', ...afterReset };
    expect(budget.ask('a', ask)).toMatchObject({ kind: 'earlierSend', verdict: 'superseded' });
    expect(budget.ask('b', ask)).toMatchObject({ kind: 'earlierSend', verdict: 'superseded' });
  });

  it('says "superseded" if another follow-up has reported a send to its job', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.report('a', 'sent', { job: 'x' });
    budget.book([closed('b', 'x')]);
    const ask = { job: 'x', ...afterReset };
    expect(budget.ask('a', ask)).toMatchObject({ kind: 'earlierSend', verdict: 'superseded' });
    expect(budget.ask('b', ask)).toMatchObject({ kind: 'earlierSend', verdict: 'superseded' });
  });
});

describe('the turn of a job after a count', () => {
  it('goes to the listed follow-up that runs rather than to one that is closed', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([closed('old', 'x'), running('new', 'x')]);
    expect(budget.ask('next', { job: 'x' })).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
    budget.advance(SETTLE);
    expect(budget.granted()).toEqual([]);
    budget.end('new', { job: 'x', jobAtEnd });
    expect(budget.granted()).toEqual(['next']);
  });

  it('is kept for the settle time if the listed follow-up is closed', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([closed('a', 'x')]);
    budget.ask('next', { job: 'x' });
    expect(budget.nextGrants()).toEqual([SETTLE, ['next']]);
  });

  it('is kept for the drain time and the settle time if the listed follow-up is closed', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([closed('a', 'x')], { drainMs: MINUTE });
    budget.ask('next', { job: 'x' });
    expect(budget.nextGrants()).toEqual([MINUTE + SETTLE, ['next']]);
  });

  it('goes back to a closed follow-up that was reset and asks again', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.book([closed('a', 'x')]);
    budget.ask('next', { job: 'x' });
    expect(budget.ask('a', { job: 'x', ...afterReset })).toMatchObject({ kind: 'earlierSend', verdict: 'current' });
    budget.advance(SETTLE);
    expect(budget.granted()).toEqual([]);
    budget.end('a', { turnUntilMs: T0 + 2 * SETTLE });
    expect(budget.nextGrants()).toEqual([SETTLE, ['next']]);
  });

  it('is kept for the agent that works on a message of yesterday', () => {
    const budget = new TestBudget({ isCounting: true });
    const send = { ...running('a', 'x'), sentAtMs: T0 - 20 * HOUR };
    budget.book([send], { leaseMs: MINUTE, drainMs: MINUTE });
    expect(budget.ask('next', { job: 'x' })).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
  });

  // A reset has brought the grant back from a time before the send that is listed.
  it('goes to the listed follow-up that runs rather than to one whose grant is remembered', () => {
    const budget = new TestBudget();
    budget.ask('old', { job: 'x' });
    budget.report('new', 'sent', { job: 'x' });
    budget.book([running('new', 'x')]);
    budget.report('old', 'notSent');
    expect(budget.ask('next', { job: 'x' })).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
  });

  it('stays with a follow-up that has reported a send if the listed one is closed', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.report('a', 'sent', { job: 'x' });
    budget.book([closed('b', 'x')]);
    expect(budget.ask('next', { job: 'x' })).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
    budget.advance(SETTLE);
    expect(budget.granted()).toEqual([]);
  });

  it('does not go back to a closed follow-up whose end was reported', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.end('a');
    budget.book([closed('a', 'x')]);
    expect(budget.ask('next', { job: 'x' })).toMatchObject({ kind: 'granted' });
  });

  it('ends a settle time later if the budget has forgotten the send of the closed follow-up', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.ask('next', { job: 'x' });
    budget.state.latestSends = {};
    budget.state.rememberedSinceMs = budget.nowMs;
    budget.book([closed('a', 'x')]);
    expect(budget.nextGrants()).toEqual([SETTLE, ['next']]);
  });

  it('leaves to the next grant how the job looked at the end of the turn before', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.end('a', { jobAtEnd });
    budget.book([closed('b', 'x')]);
    budget.advance(SETTLE);
    expect(budget.ask('next', { job: 'x' })).toMatchObject({ kind: 'granted', previousEnd: jobAtEnd });
  });
});

describe('a reported send that the budget did not grant', () => {
  it('uses one slot, from the time of its outcome, if it is reported twice', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.advance(SECOND);
    budget.report('a', 'sent', { atMs: T0 + 700 });
    budget.report('a', 'sent', { atMs: T0 + 700 });
    budget.book([]);
    expect(budget.slotEndsMs()).toEqual([700 + HELD]);
  });

  it('takes the turn of its job', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.report('a', 'sent');
    budget.book([]);
    expect(budget.ask('b', { job: 'a' })).toMatchObject({ kind: 'waiting', reason: 'job-busy' });
  });

  it('is remembered with its outcome', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.report('a', 'sent');
    budget.book([]);
    expect(budget.ask('a', afterReset)).toMatchObject({ kind: 'earlierSend', outcome: 'sent' });
  });

  it('uses no slot if its outcome is "notSent"', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.report('a', 'notSent');
    budget.book([]);
    expect(budget.usedSlots()).toBe(0);
  });

  it('leaves the job to others if its outcome is "notSent"', () => {
    const budget = new TestBudget({ isCounting: true });
    budget.report('a', 'notSent');
    budget.book([]);
    expect(budget.ask('b', { job: 'a' })).toMatchObject({ kind: 'granted' });
  });

  it('does not replace a grant to another run, which may be under way', () => {
    const budget = new TestBudget();
    budget.ask('a');
    budget.report('a', 'sent', { runId: 'old-run' });
    expect(budget.ask('a')).toMatchObject({ kind: 'granted', sendNumber: 1 });
  });

  it('does not replace a later send of its follow-up', () => {
    const budget = new TestBudget();
    budget.send('a', { sendNumber: 2 });
    budget.report('a', 'sent', { runId: 'old-run', sendNumber: 1 });
    expect(budget.ask('a')).toMatchObject({ kind: 'earlierSend', sendNumber: 2, outcome: 'sent' });
  });

  it('is not the last one of its job if another was made after it', () => {
    const budget = new TestBudget();
    budget.advance(HOUR);
    budget.send('new', { job: 'x' });
    budget.end('new');
    budget.report('old', 'sent', { job: 'x', atMs: T0 });
    const reply = budget.ask('old', { job: 'x', ...afterReset });
    expect(reply).toMatchObject({ kind: 'earlierSend', verdict: 'superseded' });
    expect(budget.ask('new', afterReset)).toMatchObject({ kind: 'earlierSend', verdict: 'current' });
  });
});

describe('a send from before the memory of the budget', () => {
  it('is "superseded", because another follow-up may have sent to the job since', () => {
    const budget = new TestBudget();
    budget.send('a', { job: 'x' });
    budget.end('a');
    budget.advance(HOUR);
    budget.state.rememberedSinceMs = budget.nowMs;
    startCounting(budget);
    budget.book([]);
    const reply = budget.ask('a', afterReset);
    expect(reply).toMatchObject({ kind: 'earlierSend', outcome: 'sent', verdict: 'superseded' });
  });
});
