import type { BudgetWord } from '../contract/index.js';

/**
 * How long one ask is repeated, with the same token, while it is uncertain whether the budget has heard it, all calls
 * included. Less than the 30 s that a lease is longer than a send may take, for the send's last check counts from the
 * first call.
 */
export const ASK_FOR_MS = 28_000;

/** A budget that has answered nobody for so long, though it was asked all the while, is silent. */
export const SILENT_AFTER_MS = 6_000;

/** So long an ask waits for the call that finds out whether a silent budget is back. */
export const PROBED_FOR_MS = 1_000;

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

/** Wait of a follow-up whose budget is silent: as long as it has been so, within these bounds. */
const SHORTEST_SILENT_WAIT_MS = 5_000;
const LONGEST_SILENT_WAIT_MS = 5 * 60_000;

/**
 * Where many wait for a silent budget, they ask again that far apart, but each of them once an hour. Whoever asks finds
 * out for all whether the budget is back, and they are woken then.
 */
const SILENT_ASKS_APART_MS = 45_000;
const LONGEST_AMONG_MANY_MS = 60 * 60_000;

/**
 * When a follow-up of a silent budget asks again.
 *
 * @param silence.lastAtMs when the one asks again that was told so last; the same clock as `nowMs`
 * @param silence.random from 0 to 1
 */
export function asksSilentBudgetAtMs(
  nowMs: number,
  { silentForMs, lastAtMs, random }: { silentForMs: number; lastAtMs: number; random: number },
): number {
  const share = 0.75 + random / 2;
  const alone = Math.min(Math.max(SHORTEST_SILENT_WAIT_MS, silentForMs), LONGEST_SILENT_WAIT_MS) * share;
  // Only the step is drawn by lot. A lot on the whole wait would add up from one to the next, and shorten them all.
  const amongMany = Math.min(lastAtMs + SILENT_ASKS_APART_MS * share - nowMs, LONGEST_AMONG_MANY_MS);
  return nowMs + Math.max(alone, amongMany);
}

/**
 * Words to one project share calls: a signal costs the budget a workflow task. One call at a time keeps them in order. The
 * first goes out at once, and what comes within two seconds after it goes together.
 */
export const REPORTS_APART_MS = 2_000;
const ENOUGH_FOR_REPORT = 5;

/**
 * Whether words go out before: where five are waiting, or one says how a send ended. A slot is held until the budget knows
 * that, and a follow-up that was reset would find its send unsettled, and wait until its lease is over.
 */
export function isEnoughForReport(words: readonly BudgetWord[]): boolean {
  return words.length >= ENOUGH_FOR_REPORT || words.some(({ kind }) => kind === 'settle');
}
