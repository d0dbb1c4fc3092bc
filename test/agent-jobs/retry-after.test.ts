import { expect, onTestFinished, test, vi } from 'vitest';
import { MAX_RETRY_AFTER_MS, parseHttpDate, parseRetryAfterMs } from '../../src/agent-jobs/retry-after.js';
import { get, send, useClient, usePeer, writes } from './support/harness.js';
import { respond } from './support/peer.js';

const NOW_MS = Date.parse('2026-03-01T12:00:00Z');
const DATE = 'Sun, 01 Mar 2026 12:00:30 GMT';

test.for<[title: string, retryAfter: string | string[] | undefined, ms: number | undefined, date?: string]>([
  ['in seconds is read', '120', 120_000],
  ['between spaces is read', ' 5 ', 5_000],
  ['of a fraction of a second is read', '0.25', 250],
  ['that comes twice gives the longer time', ['3', '9'], 9_000],
  ['with an HTTP date counts from the local clock', DATE, 30_000],
  ['with an HTTP date counts from the Date header', DATE, 90_000, 'Sun, 01 Mar 2026 11:59:00 GMT'],
  ['with an HTTP date counts from the local clock if the Date header is invalid', DATE, 30_000, 'yesterday'],
  ['of a year is shortened', '31536000', MAX_RETRY_AFTER_MS],
  ['with a date in a year is shortened', 'Mon, 01 Mar 2027 12:00:00 GMT', MAX_RETRY_AFTER_MS],
  ['with more digits than a number has is shortened', '9'.repeat(400), MAX_RETRY_AFTER_MS],
  ['with a date in the past gives no wait', 'Sun, 01 Mar 2026 11:00:00 GMT', undefined],
  ...['0', '-5', 'NaN', 'Infinity', '1e3', '2027-01-01', 'soon', '', undefined].map(
    (value): [string, string | undefined, undefined] => [
      `${value === undefined ? 'that is missing' : `of "${value}"`} gives no wait`,
      value,
      undefined,
    ],
  ),
])('a Retry-After %s', ([, retryAfter, ms, date]) => {
  expect(parseRetryAfterMs(retryAfter, date, NOW_MS)).toBe(ms);
});

test.each([
  [429, 'limited', 'limited', 42_000],
  [402, 'payment', 'payment', 42_000],
  [401, 'credentials', 'credentials', 42_000],
  [503, 'unknown', 'service', undefined],
  [400, 'rejected', 'rejected', undefined],
])('a message answered with %d is %s; the Retry-After counts only if the whole project is refused', async (...row) => {
  const [status, outcome, reason, retryAfterMs] = row;
  for (const headers of [{ 'retry-after': '42' }, { 'retry-after': DATE, date: 'Sun, 01 Mar 2026 11:59:48 GMT' }]) {
    const peer = await usePeer(writes(respond(status, {}, headers)));
    const client = useClient(peer.url);
    const { statusCode: _, message: __, ...sent } = await send(client);
    expect(sent).toEqual({ outcome, ...(retryAfterMs && { retryAfterMs }) });
    expect(await get(client)).toMatchObject({ reason, retryAfterMs: 42_000 });
  }
});

test.each([
  'Sunday, 01-Mar-26 12:00:30 GMT',
  'Sun Mar  1 12:00:30 2026',
  'Sun, 01 Mar 2026 12:00:30 UTC',
  'Sun, 01 Mar 2026 12:00:30',
])('%s is in UTC, whatever the time zone', (date) => {
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.stubEnv('TZ', 'Asia/Kathmandu');
  expect(parseHttpDate(date)).toBe(NOW_MS + 30_000);
});
