import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import { DAY, HOUR, MINUTE, SECOND } from '../support/times.js';
import {
  done,
  failed,
  granted,
  noReply,
  notSent,
  outcomeUnknown,
  OVER_MS,
  rest,
  Scene,
  START_MS,
  useVirtualTime,
  waiting,
  waitingToWatch,
  working,
} from './support.js';

useVirtualTime();

describe('progress in line', () => {
  const pause = { by: 'operator', until: iso(START_MS + DAY), note: 'tests' } as const;

  it('shows the place, when the slot is expected, when the follow-up asks again, and until when it waits', async () => {
    const scene = new Scene({ asks: [waiting({ expectedAtMs: START_MS + HOUR })] });
    await scene.advance();
    expect(scene.flow.progress()).toEqual({
      ...{ projectId: 'p', jobId: 'j', state: 'waiting-for-budget', waitReason: 'slot', position: 3, polls: 0 },
      ...{ expectedSendAt: iso(START_MS + HOUR), nextTryAt: iso(START_MS + HOUR + 3 * MINUTE) },
      ...{ learnedAt: iso(START_MS), waitsUntil: iso(START_MS + 7 * DAY) },
    });
  });

  it('shows a new reason to wait, and nothing of the one before', async () => {
    const scene = new Scene({ asks: [waiting({ expectedAtMs: START_MS + HOUR, pause })] });
    await scene.advance();
    scene.receive(waiting({ reason: 'job-busy', position: 0 }));
    await scene.advance();
    const progress = scene.flow.progress();
    expect(progress).toMatchObject({ state: 'waiting-for-job', waitReason: 'job-busy' });
    for (const field of ['pause', 'position', 'expectedSendAt']) expect(progress).not.toHaveProperty(field);
  });

  it('shows a pause that begins while the follow-up waits for its job', async () => {
    const scene = new Scene({ asks: [waiting({ reason: 'job-busy', position: 0 })] });
    await scene.advance();
    scene.receive(waiting({ reason: 'paused', pause }));
    await scene.advance();
    expect(scene.flow.progress()).toMatchObject({ state: 'blocked', waitReason: 'paused', pause, position: 3 });
  });

  it('shows why there is no reply to another ask, and nothing of the reply before', async () => {
    const scene = new Scene({ asks: [waiting({ reason: 'paused', pause }), noReply('service')] });
    await scene.advance(6 * HOUR);
    const progress = scene.flow.progress();
    const lastError = { at: iso(START_MS + 6 * HOUR), message: 'no reply: service' };
    expect(progress).toMatchObject({ state: 'blocked', waitReason: 'service', lastError });
    for (const field of ['pause', 'position']) expect(progress).not.toHaveProperty(field);
  });

  it.each(['paused', 'limited', 'credentials', 'queue-full', 'counting'] as const)(
    'shows the state "blocked" if the budget replies with the reason "%s"',
    async (reason) => {
      const scene = new Scene({ asks: [waiting({ reason })] });
      await scene.advance();
      expect(scene.flow.progress()).toMatchObject({ state: 'blocked', waitReason: reason });
    },
  );

  it('shows the state "blocked" and the reason why an ask gets no reply', async () => {
    const scene = new Scene({ asks: [noReply('payment')] });
    await scene.advance();
    expect(scene.flow.progress()).toMatchObject({ state: 'blocked', waitReason: 'payment' });
  });

  it('shows the reason "service" if the reason why an ask gets no reply is not known', async () => {
    const scene = new Scene({ asks: [noReply('something-else')] });
    await scene.advance();
    expect(scene.flow.progress()).toMatchObject({ state: 'blocked', waitReason: 'service' });
  });
});

describe('progress while the job works on another message', () => {
  it('shows that job, and until when the follow-up waits', async () => {
    const scene = new Scene({ asks: [waitingToWatch], job: 'endedByHand' });
    await scene.advance();
    expect(scene.flow.progress()).toMatchObject({ job: working, waitsUntil: iso(START_MS + 7 * DAY) });
  });

  it('shows trouble with the service only as long as it lasts', async () => {
    const job = (ms: number) => (ms < 5 * MINUTE ? failed() : working);
    const scene = new Scene({ asks: [waitingToWatch], job });
    await scene.advance(20 * MINUTE);
    expect(scene.shown).toEqual(['waiting-for-job (job-busy)', 'blocked (service)', 'waiting-for-job (job-busy)']);
  });
});

describe('progress while sends do not start', () => {
  it('shows when the next send is tried, and why the last one did not start', async () => {
    const scene = new Scene({ asks: () => granted(), sends: () => notSent });
    await scene.advance(DAY);
    const { nextTryAt = '', ...progress } = scene.flow.progress();
    expect(progress).toMatchObject({ state: 'waiting-for-budget', lastError: { message: 'too late' } });
    expect(Date.parse(nextTryAt)).toBeGreaterThan(Date.now());
    expect(Date.parse(nextTryAt)).toBeLessThanOrEqual(Date.now() + HOUR);
  });

  it('shows the refusal of a read that prevents them, and that the next send is soon', async () => {
    const scene = new Scene({ asks: () => granted(), sends: () => ({ ...notSent, refusal: 'credentials' }) });
    await scene.advance(DAY);
    const { nextTryAt = '', ...progress } = scene.flow.progress();
    expect(progress).toMatchObject({ state: 'blocked', waitReason: 'credentials' });
    expect(Date.parse(nextTryAt)).toBeGreaterThan(Date.now());
    expect(Date.parse(nextTryAt)).toBeLessThanOrEqual(Date.now() + 10 * MINUTE);
  });
});

describe('progress during and after a send', () => {
  it('shows the state "sending" until the send ends', async () => {
    const scene = new Scene({ sends: [{ afterMs: DAY }] });
    await scene.advance(20 * MINUTE);
    expect(scene.shown).toEqual(['sending']);
  });

  it('shows the state "polling" although the job cannot be read', async () => {
    const scene = new Scene({ job: () => failed('limited') });
    await scene.advance(20 * MINUTE);
    expect(scene.shown).toEqual(['sending', 'polling', 'polling (limited)']);
  });

  it('shows why the job cannot be read', async () => {
    const scene = new Scene({ job: () => failed('limited') });
    await scene.advance(20 * MINUTE);
    expect(scene.flow.progress().lastError).toMatchObject({ message: 'HTTP error: limited' });
  });

  it('shows no status and no link of a job that was not seen at work on the message', async () => {
    const scene = new Scene({ job: (ms) => (ms < 20 * SECOND ? rest : failed()) });
    await scene.advance(20 * MINUTE);
    const progress = scene.flow.progress();
    expect(progress).toMatchObject({ state: 'polling', waitReason: 'service', job: rest });
    for (const field of ['jobStatus', 'prLink']) expect(progress).not.toHaveProperty(field);
  });

  it('shows no status and no link that the job no longer has', async () => {
    const job = (ms: number) => (ms < 2 * MINUTE ? working : ms < 8 * MINUTE ? failed() : { prLink: null });
    const scene = new Scene({ job });
    await scene.advance(5 * MINUTE);
    expect(scene.flow.progress()).toMatchObject({ jobStatus: 'active', prLink: working.prLink });
    await scene.advance(5 * MINUTE);
    const progress = scene.flow.progress();
    expect(progress).toMatchObject({ state: 'polling', job: { prLink: null } });
    for (const field of ['jobStatus', 'prLink']) expect(progress).not.toHaveProperty(field);
  });

  it('shows the state "reconciling" although the job cannot be read', async () => {
    const job = (ms: number) => (ms < 4 * MINUTE ? failed() : working);
    const scene = new Scene({ sends: [outcomeUnknown], job });
    await scene.advance(20 * MINUTE);
    expect(scene.shown).toEqual(['sending', 'reconciling', 'reconciling (service)', 'polling']);
  });

  it('shows why the delivery is unknown, and until when it looks for evidence', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: () => rest });
    await scene.advance(SECOND);
    const waitsUntil = iso(START_MS + OVER_MS + 120_000);
    const lastError = { message: outcomeUnknown.message };
    expect(scene.flow.progress()).toMatchObject({ state: 'reconciling', waitsUntil, lastError });
  });
});

describe('progress after the turn of another message', () => {
  /** The job that the follow-up waits for rests at once; after the send it works for a minute. */
  function startAfterOtherTurn(): Scene {
    const scene: Scene = new Scene({
      asks: [waitingToWatch, granted()],
      job: (ms) => (scene.sent.length > 0 && ms < MINUTE ? working : done),
    });
    return scene;
  }

  it('shows no status and no link while its own turn lasts', async () => {
    const scene = startAfterOtherTurn();
    await scene.advance(SECOND);
    const progress = scene.flow.progress();
    const sent = { delivery: 'sent', sentAt: iso(START_MS), waitsUntil: iso(START_MS + DAY) };
    expect(progress).toMatchObject({ state: 'polling', ...sent, job: done });
    for (const field of ['jobStatus', 'prLink']) expect(progress).not.toHaveProperty(field);
  });

  it('counts no polls before the send', async () => {
    const scene = startAfterOtherTurn();
    expect(await scene.end()).toMatchObject({ polls: 5 });
  });

  it('shows the status and the link at the end of its own turn', async () => {
    const scene = startAfterOtherTurn();
    await scene.end();
    const own = { jobStatus: 'completed', prLink: done.prLink };
    expect(scene.flow.progress()).toMatchObject({ state: 'completed', ...own });
  });
});

describe('progress after the end', () => {
  it('shows no time until which it waits after a result', async () => {
    const scene = new Scene();
    await scene.end();
    expect(scene.flow.progress()).not.toHaveProperty('waitsUntil');
  });

  it('shows the status and the link of a job that was not seen at work', async () => {
    const scene = new Scene({ job: () => done });
    expect(await scene.end()).toMatchObject({ observedActive: false });
    expect(scene.flow.progress()).toMatchObject({ jobStatus: 'completed', prLink: done.prLink });
  });

  it('shows the failure, and no time until which it waits', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: () => rest });
    await scene.end();
    const failure = { type: 'DeliveryUnknown', delivered: 'unknown' };
    expect(scene.flow.progress()).toMatchObject({ state: 'delivery-unknown', failure });
    expect(scene.flow.progress()).not.toHaveProperty('waitsUntil');
  });
});
