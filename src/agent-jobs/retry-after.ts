/** The length of the service's budget window. A longer wait cannot be about the budget, and is cut to this. */
export const MAX_RETRY_AFTER_MS = 3_600_000;

const SECONDS = /^\d+(?:\.\d+)?$/;
// The three date forms of RFC 9110 section 5.6.7 all begin with a weekday.
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/i;

type HeaderValue = string | string[] | undefined;

/**
 * The wait that a `Retry-After` header asks for, 1 to {@link MAX_RETRY_AFTER_MS} milliseconds; `undefined` unless it is
 * a positive number of seconds or an HTTP date in the future.
 *
 * A date is relative to the response's own `Date` header if readable, which cancels out the service's clock, otherwise to
 * the local clock `nowMs`.
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

/** Parses an HTTP date in any of its three forms. All are in UTC, although asctime's does not say so. */
export function parseHttpDate(value: string | undefined): number | undefined {
  const date = value?.trim();
  if (date === undefined || !HTTP_DATE.test(date)) return undefined;
  const instantMs = Date.parse(/\b(?:GMT|UTC)$/i.test(date) ? date : `${date} GMT`);
  return Number.isNaN(instantMs) ? undefined : instantMs;
}
