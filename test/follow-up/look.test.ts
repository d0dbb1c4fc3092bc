import { describe, expect, test } from 'vitest';
import { judgeLook, shownOf, waitBeforeLook, type Attempt } from '../../src/follow-up/look.js';
import type { GetJobResult, WatchOrder } from '../../src/follow-up/port.js';

const NOW = 1_000_000;
const order: WatchOrder = {
  projectId: 'p',
  jobId: 'job-42',
  since: shownOf({ status: 'active' }, null),
  poll: { maxIntervalMs: 60_000, backoffCoefficient: 1.5 },
  intervalMs: 5_000,
  failures: 0,
  startedAtMs: NOW,
  notBeforeMs: NOW,
  untilMs: NOW + 3_600_000,
};
const attempt = (more: Partial<Attempt> = {}): Attempt => ({
  number: 1,
  nowMs: NOW,
  failuresBefore: 0,
  random: 0.5,
  ...more,
});
const job = (more: object = {}): GetJobResult => ({ kind: 'job', job: { status: 'active', ...more } });
const failed = (more: object = {}): GetJobResult => ({
  kind: 'failed',
  reason: 'service',
  message: 'HTTP 503',
  ...more,
});
const refused = failed({ reason: 'unauthorized', message: 'HTTP 401' });
const gone: GetJobResult = { kind: 'notFound', message: 'HTTP 404' };

describe('a look', () => {
  test('at an unchanged job is followed by another, after a longer wait each time, up to the longest', () => {
    const waits = [1, 2, 3, 30].map((number) => judgeLook(order, attempt({ number }), job()));
    expect(waits).toMatchObject([
      { kind: 'again', delayMs: 7_500, looks: 1 },
      { kind: 'again', delayMs: 11_250, looks: 2 },
      { kind: 'again', delayMs: 16_875, looks: 3 },
      { kind: 'again', delayMs: 60_000, looks: 30, message: 'job-42 is active; look 30; next in 1 min' },
    ]);
  });

  test.each([
    ['another status', job({ status: 'completed' })],
    ['a pull request', job({ prLink: 'https://git.example/pull/1' })],
    ['an archived job', job({ archivedAt: '2026-01-01T00:00:00Z' })],
    ['no job', gone],
    ['a refused API key', refused],
  ])('that shows %s ends the watch', (_what, read) => {
    expect(judgeLook(order, attempt(), read)).toMatchObject({ kind: 'end', read, looks: 1, intervalMs: 7_500 });
  });

  test('that fails ends the watch as the third in a row, unless the trouble is already known', () => {
    const look = (failuresBefore: number, trouble: 'unreadable' | null = null) =>
      judgeLook({ ...order, since: { ...order.since, trouble } }, attempt({ failuresBefore }), failed());
    expect([look(0), look(1)]).toMatchObject([
      { kind: 'again', failures: 1 },
      { kind: 'again', failures: 2 },
    ]);
    expect(look(2)).toMatchObject({ kind: 'end', failures: 3 });
    expect(look(9, 'unreadable')).toMatchObject({ kind: 'again' });
    expect(judgeLook(order, attempt({ failuresBefore: 2 }), job())).toMatchObject({ kind: 'again', failures: 0 });
  });

  test('at a job that can be read again ends the watch', () => {
    const blocked = { ...order, since: { ...order.since, trouble: 'unreadable' as const } };
    expect(judgeLook(blocked, attempt(), job())).toMatchObject({ kind: 'end' });
  });

  test('at the end of the watch’s time ends it, although nothing is new', () => {
    expect(judgeLook(order, attempt({ nowMs: order.untilMs }), job())).toMatchObject({ kind: 'end' });
    const last = judgeLook(order, attempt({ number: 9, nowMs: order.untilMs - 1_000 }), job());
    expect(last).toMatchObject({ kind: 'again', delayMs: 1_000 });
  });

  test('waits for a Retry-After, and ends the watch if that is later than the end of its time', () => {
    const limited = (retryAfterMs: number) => failed({ reason: 'limited', retryAfterMs });
    expect(judgeLook(order, attempt(), limited(900_000))).toMatchObject({ kind: 'again', delayMs: 900_000 });
    expect(judgeLook(order, attempt(), limited(7_200_000))).toMatchObject({ kind: 'end' });
  });

  test('waits for its time, and an attempt that comes too early does not count as a look', () => {
    const later = { ...order, notBeforeMs: NOW + 5_000 };
    expect(waitBeforeLook(later, attempt())).toMatchObject({ kind: 'again', delayMs: 5_000, looks: 0 });
    const due = attempt({ number: 2, nowMs: NOW + 5_000 });
    expect(waitBeforeLook(later, due)).toBeUndefined();
    expect(judgeLook(later, due, job())).toMatchObject({ looks: 1, delayMs: 7_500 });
  });
});
