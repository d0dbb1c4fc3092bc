/**
 * Longest wait that a `Retry-After` may ask for: the length of the service's budget window, 1 h. A longer one cannot be
 * about the budget. Cut to this, a nonsensical value (a year) costs at most one probe an hour.
 */
export const MAX_RETRY_AFTER_MS = 3_600_000;

const SECONDS = /^\d+(?:\.\d+)?$/;
// The three date forms of RFC 9110 section 5.6.7 all begin with the name of a weekday.
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/i;

type HeaderValue = string | string[] | undefined;

/**
 * The wait that a `Retry-After` header asks for: 1 to {@link MAX_RETRY_AFTER_MS} milliseconds; longer ones are cut to
 * that. `undefined` if there is no header or its value is not usable: neither a number of seconds nor an HTTP date,
 * negative, zero, or a date in the past. Then the caller's own backoff applies.
 *
 * A date is compared with the answer's own `Date` header if that is readable, which cancels out the service's clock,
 * otherwise with `nowMs`.
 *
 * @param nowMs the local clock, epoch milliseconds
 */
export function parseRetryAfterMs(retryAfter: HeaderValue, date: HeaderValue, nowMs: number): number | undefined {
  const serviceNowMs = parseHttpDate([date].flat()[0]) ?? nowMs;
  const waits = [retryAfter]
    .flat()
    .map((value) => waitMs(value?.trim() ?? '', serviceNowMs))
    .filter((wait) => wait > 0);
  return waits.length === 0 ? undefined : Math.min(Math.ceil(Math.max(...waits)), MAX_RETRY_AFTER_MS);
}

function waitMs(value: string, serviceNowMs: number): number {
  if (SECONDS.test(value)) return Number(value) * 1_000;
  const instantMs = parseHttpDate(value);
  return instantMs === undefined ? 0 : instantMs - serviceNowMs;
}

/** The instant of an HTTP date in any of its three forms, in epoch milliseconds. All are in UTC; asctime's does not say so. */
export function parseHttpDate(value: string | undefined): number | undefined {
  const date = value?.trim();
  if (date === undefined || !HTTP_DATE.test(date)) return undefined;
  const instantMs = Date.parse(/\b(?:GMT|UTC)$/i.test(date) ? date : `${date} GMT`);
  return Number.isNaN(instantMs) ? undefined : instantMs;
}
