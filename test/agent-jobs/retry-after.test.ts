import { describe, expect, test } from 'vitest';
import { MAX_RETRY_AFTER_MS, parseRetryAfterMs } from '../../src/agent-jobs/outcomes.js';
import { send, useClient, usePeer } from './support/harness.js';
import { answer } from './support/peer.js';

const NOW_MS = Date.parse('2026-03-01T12:00:00Z');

describe('a Retry-After of', () => {
  const rows: [string, string | string[] | undefined, string | undefined, number | undefined][] = [
    ['seconds', '120', undefined, 120_000],
    ['seconds between spaces', ' 5 ', undefined, 5_000],
    ['a fraction of a second', '0.25', undefined, 250],
    ['two headers: the longer time', ['3', '9'], undefined, 9_000],
    ['an HTTP date, by the local clock', 'Sun, 01 Mar 2026 12:00:30 GMT', undefined, 30_000],
    ['an HTTP date, by the Date header', 'Sun, 01 Mar 2026 12:00:30 GMT', 'Sun, 01 Mar 2026 11:59:00 GMT', 90_000],
    ['an HTTP date, with an invalid Date header', 'Sun, 01 Mar 2026 12:00:30 GMT', 'yesterday', 30_000],
    ['an obsolete date of RFC 850', 'Sunday, 01-Mar-26 12:00:30 GMT', undefined, 30_000],
    ['a year: shortened', '31536000', undefined, MAX_RETRY_AFTER_MS],
    ['a date in a year: shortened', 'Mon, 01 Mar 2027 12:00:00 GMT', undefined, MAX_RETRY_AFTER_MS],
    ['more digits than a number has: shortened', '9'.repeat(400), undefined, MAX_RETRY_AFTER_MS],
    ['zero: none', '0', undefined, undefined],
    ['a negative number: none', '-5', undefined, undefined],
    ['a date in the past: none', 'Sun, 01 Mar 2026 11:00:00 GMT', undefined, undefined],
    ['NaN: none', 'NaN', undefined, undefined],
    ['Infinity: none', 'Infinity', undefined, undefined],
    ['an exponent: none', '1e3', undefined, undefined],
    ['a bare year: none', '2027-01-01', undefined, undefined],
    ['words: none', 'soon', undefined, undefined],
    ['nothing: none', '', undefined, undefined],
    ['no header: none', undefined, undefined, undefined],
  ];
  test.for(rows)('%s', ([, retryAfter, date, expected]) => {
    expect(parseRetryAfterMs(retryAfter, date, NOW_MS)).toBe(expected);
  });
});

test.each([
  [429, 'limited', 42_000],
  [402, 'payment', 42_000],
  [401, 'unauthorized', 42_000],
  [503, 'unknown', undefined],
  [400, 'rejected', undefined],
])('a message answered with %d is %s; the Retry-After counts only if the whole project is refused', async (...row) => {
  const [status, outcome, retryAfterMs] = row;
  const peer = await usePeer({
    onRequest: ({ socket }) => socket.end(answer(status, {}, { 'retry-after': '42' })),
  });
  const result = await send(useClient(peer.url));
  expect(result.outcome).toBe(outcome);
  expect(result.retryAfterMs).toBe(retryAfterMs);
});
