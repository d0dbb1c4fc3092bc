import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import { DAY, HOUR, MINUTE, SECOND } from '../support/times.js';
import {
  archived,
  done,
  full,
  granted,
  noReply,
  notFound,
  notSent,
  rest,
  Scene,
  START_MS,
  useVirtualTime,
  waiting,
  waitingToWatch,
  working,
} from './support.js';

useVirtualTime();

describe('a follow-up that asks for a slot', () => {
  it('ends as JobArchived if its job is archived', async () => {
    const scene = new Scene({ asks: [archived] });
    expect(await scene.end()).toMatchObject({ type: 'JobArchived', delivered: 'no' });
    expect(scene.shown.at(-1)).toBe('not-sent');
  });

  it('ends as JobNotFound after 30 seconds of 404', async () => {
    const scene = new Scene({ asks: [notFound], job: () => notFound });
    expect(await scene.end()).toMatchObject({ type: 'JobNotFound', delivered: 'no' });
    expect(scene.elapsedMs()).toBe(35_625);
  });

  it('sends if its job is found after 20 seconds of 404', async () => {
    const job = (ms: number) => (ms < 20 * SECOND ? notFound : ms < MINUTE ? rest : done);
    const scene = new Scene({ asks: [notFound, granted()], job });
    expect(await scene.end()).toMatchObject({ delivery: 'sent' });
  });

  it('ends as Closed if its key was used for another message', async () => {
    const scene = new Scene({ asks: [{ kind: 'otherMessage' }] });
    expect(await scene.end()).toMatchObject({ type: 'Closed', delivered: 'no' });
    expect(scene.calls).toEqual(['ask 1', 'next task', 'end']);
  });

  it('ends as Closed if the budget has already recorded its end', async () => {
    const scene = new Scene({ asks: [{ kind: 'ended' }] });
    expect(await scene.end()).toMatchObject({ type: 'Closed', delivered: 'unknown' });
    expect(scene.calls).toEqual(['ask 1', 'next task', 'end']);
  });

  it('asks again if the reply is about another send', async () => {
    const scene = new Scene({ asks: [granted({ sendNumber: 2 }), waiting()] });
    await scene.advance();
    expect(scene.calls).toEqual(['ask 1', 'ask 1']);
  });

  it('shows why the service refused the read of its job', async () => {
    const scene = new Scene({
      asks: [(request) => ({ kind: 'asked', refusalMessage: 'HTTP 401', reply: granted()(request) })],
    });
    await scene.advance();
    expect(scene.flow.progress().lastError).toMatchObject({ message: 'HTTP 401' });
  });

  it('shows a refusal again once the budget replies', async () => {
    const refused = (request: Parameters<ReturnType<typeof granted>>[0]) =>
      ({ kind: 'asked', refusalMessage: 'HTTP 401', reply: granted({ sendNumber: 2 })(request) }) as const;
    const scene = new Scene({ asks: [refused, noReply('budget-silent', waiting())] });
    await scene.advance();
    expect(scene.flow.progress()).toMatchObject({ waitReason: 'slot', lastError: { message: 'HTTP 401' } });
  });

  it('lets the send read the job after a refused read', async () => {
    const scene = new Scene({
      asks: [(request) => ({ kind: 'asked', refusalMessage: 'HTTP 401', reply: granted()(request) })],
    });
    await scene.advance();
    expect(scene.sent).toHaveLength(1);
    expect(scene.sent[0]?.request).not.toHaveProperty('jobBefore');
  });
});

describe('a follow-up in line', () => {
  it('sends when it is granted a slot', async () => {
    const scene = new Scene({ asks: [waiting()] });
    await scene.advance(10 * MINUTE);
    scene.receive(granted());
    await scene.advance();
    expect(scene.sent).toMatchObject([{ afterMs: 10 * MINUTE, request: { grant: { sendNumber: 1 } } }]);
  });

  it('lets the send read the job, because the read before the ask is old', async () => {
    const scene = new Scene({ asks: [waiting()] });
    await scene.advance(10 * MINUTE);
    scene.receive(granted());
    await scene.advance();
    expect(scene.sent).toHaveLength(1);
    expect(scene.sent[0]?.request).not.toHaveProperty('jobBefore');
  });

  it('ends as BudgetWaitTimeout after budgetWaitTimeout', async () => {
    const scene = new Scene({ asks: () => waiting() }, { budgetWaitTimeoutMs: 3 * HOUR });
    expect(await scene.end()).toMatchObject({ type: 'BudgetWaitTimeout', delivered: 'no' });
    expect(scene.elapsedMs()).toBe(3 * HOUR);
  });

  it('ends as BudgetWaitTimeout before its history is full', async () => {
    const scene = new Scene({ asks: [waiting()], isHistoryFull: true });
    expect(await scene.end()).toMatchObject({ type: 'BudgetWaitTimeout', delivered: 'no' });
  });

  it.each([
    ['3 minutes after its slot was expected', { expectedAtMs: START_MS + 20 * MINUTE }, 23],
    ['after 3 minutes if the budget still counts', { reason: 'counting' }, 3],
    ['after 6 hours if its slot is expected later', { expectedAtMs: START_MS + 7 * HOUR }, 360],
    ['after 6 hours if it waits for its job', { reason: 'job-busy' }, 360],
  ] as const)('asks again %s: its grant may be lost', async (_when, more, minutes) => {
    const scene = new Scene({ asks: [waiting(more), noReply()] });
    await scene.advance(7 * HOUR);
    expect(scene.askedAfterMs()).toEqual([0, minutes * MINUTE]);
  });

  it('asks fewer than 2,500 times in a year, although its slot is always expected soon', async () => {
    const asks = () => waiting({ expectedAtMs: Date.now() });
    const scene = new Scene({ asks }, { budgetWaitTimeoutMs: 365 * DAY });
    await scene.end();
    expect(scene.elapsedMs()).toBe(365 * DAY);
    expect(scene.asked.length).toBeLessThan(2_500);
  });

  it('asks again at once when it is woken', async () => {
    const scene = new Scene({ asks: [waiting(), noReply()] });
    await scene.advance(SECOND);
    scene.flow.wake();
    await scene.advance(DAY);
    expect(scene.askedAfterMs()).toEqual([0, SECOND]);
  });

  it('asks again at once after pollNow', async () => {
    const scene = new Scene({ asks: [waiting(), noReply()] });
    await scene.advance(SECOND);
    scene.flow.pollNow();
    await scene.advance(DAY);
    expect(scene.askedAfterMs()).toEqual([0, SECOND]);
  });
});

describe('a follow-up without a place in line', () => {
  it('asks every 15 minutes', async () => {
    const scene = new Scene({ asks: () => full() });
    await scene.advance(HOUR);
    expect(scene.askedAfterMs()).toEqual([0, 15, 30, 45, 60].map((minutes) => minutes * MINUTE));
  });

  it('waits up to twice as long, at random, so that not all ask together', async () => {
    const scene = new Scene({ asks: () => full(), random: 0.5 });
    await scene.advance(HOUR);
    expect(scene.askedAfterMs()).toEqual([0, 22.5 * MINUTE, 45 * MINUTE]);
  });

  it('asks less and less often in a year, so that no history is full', async () => {
    const scene = new Scene({ asks: () => full() }, { budgetWaitTimeoutMs: 365 * DAY });
    await scene.advance(365 * DAY);
    expect(scene.asked.length).toBeLessThan(2_500);
  });

  it('asks again at once after pollNow', async () => {
    const scene = new Scene({ asks: [full(), noReply()] });
    await scene.advance(SECOND);
    scene.flow.pollNow();
    await scene.advance(DAY);
    expect(scene.askedAfterMs()).toEqual([0, SECOND]);
  });
});

describe('an ask to which there is no reply', () => {
  it('is made again at once after pollNow', async () => {
    const scene = new Scene({ asks: [noReply(), waiting()] });
    await scene.advance(SECOND);
    scene.flow.pollNow();
    await scene.advance(HOUR);
    expect(scene.askedAfterMs()).toEqual([0, SECOND]);
  });

  it('ends when a grant comes', async () => {
    const scene = new Scene({ asks: [noReply()] });
    scene.receive(granted());
    await scene.advance();
    expect(scene.calls).toEqual(['ask 1', 'send 1', 'report 1 sent', 'watch end']);
  });

  it('lets the send read the job when a grant comes', async () => {
    const scene = new Scene({ asks: [noReply()] });
    scene.receive(granted());
    await scene.advance();
    expect(scene.sent).toHaveLength(1);
    expect(scene.sent[0]?.request).not.toHaveProperty('jobBefore');
  });

  it('is made again at intervals that grow to an hour if it is ended by hand', async () => {
    const scene = new Scene({ asks: () => ({ kind: 'endedByHand' }) });
    await scene.advance(5 * DAY);
    expect(scene.asked.length).toBeGreaterThan(5 * 24);
    expect(scene.asked.length).toBeLessThan(5 * 24 + 20);
  });

  it('is made again after a second if others were ended by hand hours ago', async () => {
    const endedByHand = { kind: 'endedByHand' } as const;
    const asks = [...Array.from({ length: 10 }, () => endedByHand), waiting(), endedByHand, noReply()];
    const scene = new Scene({ asks });
    await scene.advance(12 * HOUR);
    const [endedAfterMs = 0, againAfterMs] = scene.askedAfterMs().slice(-2);
    expect(endedAfterMs).toBeGreaterThan(6 * HOUR);
    expect(againAfterMs).toBe(endedAfterMs + SECOND);
  });
});

describe('a follow-up whose job works on an unknown message', () => {
  it('watches its job, and asks again when that rests', async () => {
    const job = (ms: number) => (ms < HOUR ? working : rest);
    const scene = new Scene({ asks: [waitingToWatch, granted()], job });
    await scene.advance(HOUR - 1);
    expect(scene.calls).toEqual(['ask 1', 'watch rest']);
    await scene.advance(2 * MINUTE);
    expect(scene.calls).toEqual(['ask 1', 'watch rest', 'ask 1', 'send 1', 'report 1 sent', 'watch end']);
  });

  it('ends as BudgetWaitTimeout after budgetWaitTimeout', async () => {
    const script = { asks: () => waitingToWatch, job: () => working };
    const scene = new Scene(script, { budgetWaitTimeoutMs: 3 * HOUR });
    expect(await scene.end()).toMatchObject({ type: 'BudgetWaitTimeout', delivered: 'no' });
    expect(scene.elapsedMs()).toBe(3 * HOUR);
  });

  it('asks less and less often if its watches end too early', async () => {
    const scene = new Scene({ asks: () => waitingToWatch }, { budgetWaitTimeoutMs: 5 * MINUTE });
    const observation = { polls: 1, nextPollAt: iso(START_MS), observedActive: false, intervalMs: 5 * SECOND };
    scene.watchJob = () => ({
      result: Promise.resolve({ kind: 'deadline', observation }),
      stop: () => undefined,
    });
    expect(await scene.end()).toMatchObject({ type: 'BudgetWaitTimeout', delivered: 'no' });
    expect(scene.askedAfterMs()).toEqual([0, 0, 1, 3, 7, 15, 31, 63, 127, 255].map((seconds) => seconds * SECOND));
    expect(scene.elapsedMs()).toBe(5 * MINUTE);
  });

  it('ignores a wake, because it asks when its job rests', async () => {
    const scene = new Scene({ asks: [waitingToWatch], job: () => working });
    await scene.advance(SECOND);
    scene.flow.wake();
    await scene.advance(DAY);
    expect(scene.askedAfterMs()).toEqual([0]);
  });

  it('sends at once when it is granted a slot', async () => {
    const scene = new Scene({ asks: [waiting(), waitingToWatch], job: () => working });
    await scene.advance(6 * HOUR + SECOND);
    scene.receive(granted());
    await scene.advance();
    expect(scene.calls).toEqual(['ask 1', 'ask 1', 'watch rest', 'send 1', 'report 1 sent', 'watch end']);
  });

  it('lets the send read the job when it is granted a slot', async () => {
    const scene = new Scene({ asks: [waiting(), waitingToWatch], job: () => working });
    await scene.advance(6 * HOUR + SECOND);
    scene.receive(granted());
    await scene.advance();
    expect(scene.sent).toHaveLength(1);
    expect(scene.sent[0]?.request).not.toHaveProperty('jobBefore');
  });

  it('asks for another send if the granted one does not start', async () => {
    const asks = [waiting(), waitingToWatch, granted()];
    const scene = new Scene({ asks, job: () => working, sends: [notSent, {}] });
    await scene.advance(6 * HOUR + SECOND);
    scene.receive(granted());
    await scene.advance(5 * SECOND);
    expect(scene.calls).toEqual([
      ...['ask 1', 'ask 1', 'watch rest', 'send 1', 'report 1 notSent'],
      ...['ask 2', 'send 2', 'report 2 sent', 'watch end'],
    ]);
  });
});

describe('a follow-up whose job works on one replica of the service and rests on another', () => {
  it('asks again at once the first time, also after sends that did not start', async () => {
    const asks = [...Array.from({ length: 10 }, () => granted()), waitingToWatch, noReply()];
    const scene = new Scene({ asks, job: () => rest, sends: () => notSent });
    await scene.advance(HOUR);
    expect(scene.asked).toHaveLength(12);
    const [watchedAfterMs, againAfterMs] = scene.askedAfterMs().slice(-2);
    expect(againAfterMs).toBe(watchedAfterMs);
  });

  it('asks less and less often', async () => {
    const scene = new Scene({ asks: () => waitingToWatch, job: () => rest });
    await scene.advance(HOUR);
    expect(scene.asked.length).toBeLessThan(20);
  });

  it('asks at once after pollNow', async () => {
    const scene = new Scene({ asks: () => waitingToWatch, job: () => rest });
    await scene.advance(HOUR);
    scene.flow.pollNow();
    await scene.advance();
    expect(scene.askedAfterMs().at(-1)).toBe(HOUR);
  });
});
