/**
 * Longest wait that a `Retry-After` may ask for: the length of the service's budget window, 1 h. A longer one cannot be
 * about the budget; cut to this, a nonsensical one (a year) costs at most one probe an hour.
 */
export const MAX_RETRY_AFTER_MS = 3_600_000;

const SECONDS = /^\d+(?:\.\d+)?$/;
// The three date forms of RFC 9110 section 5.6.7 all begin with the name of a weekday.
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/i;

type HeaderValue = string | string[] | undefined;

/**
 * The wait, in milliseconds, that a `Retry-After` header asks for: from 1 ms to {@link MAX_RETRY_AFTER_MS}, longer ones
 * cut to it. `undefined` where there is none, or where it says nothing usable: not a number of seconds and no HTTP date,
 * negative, zero, or a date in the past (then the caller's own backoff applies).
 *
 * A date is compared with the answer's own `Date` header where there is a readable one, which makes the service's clock
 * cancel out, else with `nowMs`.
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

function parseHttpDate(value: string | undefined): number | undefined {
  if (value === undefined || !HTTP_DATE.test(value.trim())) return undefined;
  const instantMs = Date.parse(value.trim());
  return Number.isNaN(instantMs) ? undefined : instantMs;
}
