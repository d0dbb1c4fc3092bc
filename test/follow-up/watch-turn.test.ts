import { describe, expect, it } from 'vitest';
import type { AgentJob } from '../../src/contract/index.js';
import type { Read } from '../../src/follow-up/judge.js';
import { fingerprint } from '../../src/protocol/index.js';
import { DAY, HOUR, MINUTE, SECOND } from '../support/times.js';
import {
  done,
  failed,
  granted,
  grantedAfterRead,
  notFound,
  outcomeUnknown,
  rest,
  Scene,
  useVirtualTime,
  working,
} from './support.js';

useVirtualTime();

describe('a follow-up that watches the turn', () => {
  it('returns that its job failed', async () => {
    const failedJob = { ...rest, status: 'failed' };
    const scene = new Scene({ job: (ms) => (ms < MINUTE ? working : failedJob) });
    expect(await scene.end()).toMatchObject({ status: 'failed', prLink: rest.prLink, prLinkChanged: false });
    expect(scene.shown.at(-1)).toBe('job-failed');
  });

  it('believes the end soon if the response to the message shows the job at work', async () => {
    const scene = new Scene({ sends: [{ job: working }], job: () => rest });
    expect(await scene.end()).toMatchObject({ observedActive: true });
    expect(scene.elapsedMs()).toBe(40_625);
  });

  it('believes the end later if the job was at work before the message, too', async () => {
    const scene = new Scene({ asks: [grantedAfterRead(working)], sends: [{ job: working }], job: () => rest });
    expect(await scene.end()).toMatchObject({ observedActive: false });
    expect(scene.elapsedMs()).toBe(220_858);
  });

  it('ends as JobNotFound if its job no longer exists', async () => {
    const scene = new Scene({ job: () => notFound });
    expect(await scene.end()).toMatchObject({ type: 'JobNotFound', delivered: 'yes' });
    expect(scene.shown.at(-1)).toBe('job-failed');
  });

  it('ends as JobTimeout if its job works until jobTimeout', async () => {
    const scene = new Scene({ job: () => working });
    expect(await scene.end()).toMatchObject({ type: 'JobTimeout', delivered: 'yes' });
    expect(scene.shown.at(-1)).toBe('timed-out');
    expect(scene.elapsedMs()).toBe(DAY);
  });

  it('ends as JobTimeout before its first poll if jobTimeout is shorter', async () => {
    const poll = { initialIntervalMs: HOUR, maxIntervalMs: HOUR, backoffCoefficient: 1 };
    const scene = new Scene({ job: () => working }, { jobTimeoutMs: MINUTE, poll });
    expect(await scene.end()).toMatchObject({ type: 'JobTimeout', delivered: 'yes' });
    expect(scene.elapsedMs()).toBe(MINUTE);
  });

  it('leaves the delivery unknown if it was assumed and its job works until jobTimeout', async () => {
    const script = {
      asks: [grantedAfterRead(working)],
      sends: [outcomeUnknown],
      job: () => working,
    };
    const scene = new Scene(script, { onUnknownDelivery: 'assumeSent' });
    expect(await scene.end()).toMatchObject({ type: 'JobTimeout', delivered: 'unknown' });
  });

  it('is not disturbed by a grant that comes late', async () => {
    const scene = new Scene();
    await scene.advance(20 * SECOND);
    scene.receive(granted({ runId: 'earlier' }));
    await scene.advance();
    expect(scene.watched).toHaveLength(1);
  });
});

describe('the link of a job at the end of the turn', () => {
  it('has changed if there was none before the send', async () => {
    const scene = new Scene({ asks: [grantedAfterRead({ ...rest, prLink: null })] });
    expect(await scene.end()).toMatchObject({ prLink: done.prLink, prLinkChanged: true });
  });

  it('has changed if there was another before the send', async () => {
    const scene = new Scene({ asks: [grantedAfterRead(rest)] });
    expect(await scene.end()).toMatchObject({ prLink: done.prLink, prLinkChanged: true });
  });

  it('has not changed if it was the same before the send', async () => {
    const scene = new Scene({ asks: [grantedAfterRead(done)] });
    expect(await scene.end()).toMatchObject({ prLink: done.prLink, prLinkChanged: false });
  });

  it('has not changed if the turn before ended with it, although no read showed that', async () => {
    const scene = new Scene({
      asks: [grantedAfterRead({ ...rest, prLink: null }, { previousEnd: fingerprint(done) })],
    });
    expect(await scene.end()).toMatchObject({ prLink: done.prLink, prLinkChanged: false });
  });
});

describe('a watch', () => {
  it('hands on to the next watch what it has seen', async () => {
    const isLimited = (ms: number) => ms > 2 * MINUTE && ms < 8 * MINUTE;
    const scene = new Scene({ job: (ms) => (isLimited(ms) ? failed('limited') : working) });
    await scene.advance(HOUR);
    const [, second, third, ...others] = scene.watched;
    expect(others).toEqual([]);
    expect(second).toMatchObject({ trouble: 'limited', observation: { observedActive: true } });
    expect(third).toMatchObject({ trouble: null });
    expect(third!.observation!.polls).toBeGreaterThan(second!.observation!.polls);
  });

  it('hands on to the next watch when to read the job', async () => {
    const isLimited = (ms: number) => ms > 2 * MINUTE && ms < 8 * MINUTE;
    const scene = new Scene({ job: (ms) => (isLimited(ms) ? failed('limited') : working) });
    await scene.advance(HOUR);
    const intervals = scene.polledAfterMs.slice(1).map((afterMs, index) => afterMs - scene.polledAfterMs[index]!);
    expect(new Set(intervals.slice(8))).toEqual(new Set([MINUTE]));
  });

  it.each<[title: string, reads: (AgentJob | Read)[], most: number]>([
    ['most reads fail', [working, failed(), failed(), failed(), failed()], 1_000],
    ['reads fail or do not find the job', [notFound, failed(), failed(), failed(), failed()], 2],
  ])('is seldom replaced by another in a week in which %s', async (_title, reads, most) => {
    let count = 0;
    const scene = new Scene({ job: () => reads[(count += 1) % reads.length]! }, { jobTimeoutMs: 8 * DAY });
    await scene.advance(7 * DAY);
    expect(count).toBeGreaterThan(10_000);
    expect(scene.watched.length).toBeLessThanOrEqual(most);
  });

  it('begins again at intervals that grow to an hour if it is ended by hand', async () => {
    const scene = new Scene({ job: 'endedByHand' }, { jobTimeoutMs: 6 * DAY });
    await scene.advance(5 * DAY);
    expect(scene.watched.length).toBeGreaterThan(5 * 24);
    expect(scene.watched.length).toBeLessThan(5 * 24 + 20);
  });

  it('begins again at intervals that grow to an hour, also after budgetWaitTimeout', async () => {
    const scene = new Scene({ job: 'endedByHand' }, { jobTimeoutMs: 6 * DAY, budgetWaitTimeoutMs: MINUTE });
    await scene.advance(5 * DAY);
    expect(scene.watched.length).toBeLessThan(5 * 24 + 20);
  });
});

describe('pollNow during a watch', () => {
  it('is accepted five times in a row', async () => {
    const scene = new Scene({ job: () => working });
    for (let times = 1; times <= 6; times += 1) {
      scene.flow.pollNow();
      await scene.advance();
    }
    expect(scene.watched).toHaveLength(1 + 5);
  });

  it('reads the job at once, also for the twentieth time in a day', async () => {
    const scene = new Scene({ job: () => working });
    for (let times = 1; times <= 20; times += 1) {
      await scene.advance(HOUR + 7 * SECOND);
      scene.flow.pollNow();
      await scene.advance();
      expect(scene.polledAfterMs.at(-1)).toBe(times * (HOUR + 7 * SECOND));
    }
  });

  it('stops the watch only when the current task can no longer be undone', async () => {
    const scene = new Scene();
    let beginNextTask = (): void => undefined;
    scene.nextTask = () => new Promise((resolve) => (beginNextTask = resolve));
    await scene.advance(20 * SECOND);
    scene.flow.pollNow();
    await scene.advance();
    expect(scene.watched).toHaveLength(1);
    beginNextTask();
    await scene.advance();
    expect(scene.watched).toHaveLength(2);
  });
});

describe('repeated use of pollNow', () => {
  it('keeps no follow-up beyond jobTimeout', async () => {
    const scene = new Scene({ job: () => working }, { jobTimeoutMs: HOUR });
    for (let times = 1; times <= 300; times += 1) {
      await scene.advance(10 * SECOND);
      scene.flow.pollNow();
    }
    await scene.end();
    expect(scene.elapsedMs()).toBe(HOUR);
  });

  it.each([5, 20, 31])('does not hide the end of the turn (every %i seconds)', async (seconds) => {
    const scene = new Scene({ job: (ms) => (ms < MINUTE ? working : rest) });
    while (scene.shown.at(-1) !== 'completed' && scene.elapsedMs() < HOUR) {
      await scene.advance(seconds * SECOND);
      scene.flow.pollNow();
      await scene.advance();
    }
    expect(scene.shown.at(-1)).toBe('completed');
  });

  it.each([5, 20, 31])('does not hide that the job no longer exists (every %i seconds)', async (seconds) => {
    const scene = new Scene({ job: () => notFound });
    while (scene.shown.at(-1) !== 'job-failed' && scene.elapsedMs() < HOUR) {
      await scene.advance(seconds * SECOND);
      scene.flow.pollNow();
      await scene.advance();
    }
    expect(scene.shown.at(-1)).toBe('job-failed');
  });
});
