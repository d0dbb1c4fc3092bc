/** Between two calls of one ask whose answer was lost. */
const RETRY_AFTER_MS = 250;

/** Longest wait of an ask that the server turned away. */
const LONGEST_MS = 2_000;

/**
 * How long an ask waits before it comes again. The server turns asks away (`RESOURCE_EXHAUSTED`) where more than 10
 * updates of a budget are in flight, and for a moment while a budget continues as new: so at random, soon at first, and
 * in a range that grows from 250 to 500 ms up to 250 to 2,000 ms.
 *
 * @param timesTurnedAway how often in a row; 0 where only the answer was lost
 * @param random from 0 to 1
 */
export function askAgainAfterMs(timesTurnedAway: number, random: number): number {
  if (timesTurnedAway === 0) return RETRY_AFTER_MS;
  const longestMs = Math.min(LONGEST_MS, RETRY_AFTER_MS * 2 ** timesTurnedAway);
  return RETRY_AFTER_MS + random * (longestMs - RETRY_AFTER_MS);
}
