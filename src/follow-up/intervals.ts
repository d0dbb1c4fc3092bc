/** Share by which each wait between two polls is spread, both ways: follow-ups started together drift apart. */
const JITTER = 0.1;

/** Backoff of repeated asks and of get-job calls that fail before the send: 1 s, doubling up to 60 s. */
const FIRST_BACKOFF_MS = 1_000;
const LONGEST_BACKOFF_MS = 60_000;

/** A wait of `ms`, spread by 10 % both ways. `random` is from 0 to 1. */
export function jittered(ms: number, random: number): number {
  return Math.round(ms * (1 - JITTER + 2 * JITTER * random));
}

/** The wait after a wait. */
export function nextInterval(currentMs: number, poll: { maxIntervalMs: number; backoffCoefficient: number }): number {
  return Math.min(poll.maxIntervalMs, currentMs * poll.backoffCoefficient);
}

/** Wait before repeating something that failed `failures` times in a row. */
export function backoffMs(failures: number): number {
  return Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** Math.max(0, Math.min(failures - 1, 10)));
}
