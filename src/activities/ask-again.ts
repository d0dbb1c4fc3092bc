import { defined } from '../contract/defined.js';
import type { SendOutcome } from '../contract/index.js';
import type { AcquireAnswer, BudgetWord, GrantedBefore } from '../contract/protocol.js';

/**
 * How long one ask is repeated with the same token while it is uncertain whether the budget has heard it, including all
 * calls. This is less than the 30 s by which a lease is longer than a send may take, because the last check before the
 * send counts from the first call.
 */
export const ASK_FOR_MS = 28_000;

/** A budget is silent if it has answered nobody for this long although it was asked all the time. */
export const SILENT_AFTER_MS = 6_000;

/** How long an ask waits for the call that finds out whether a silent budget is back. */
export const PROBED_FOR_MS = 1_000;

/** Time between two calls of one ask whose answer was lost. */
const RETRY_AFTER_MS = 250;

/** Longest wait of an ask that the server turned away. */
const LONGEST_MS = 2_000;

/**
 * How long an ask waits before it is repeated. The server turns asks away (`RESOURCE_EXHAUSTED`) if more than 10
 * updates of a budget are in flight, and for a moment while a budget continues as new. So the wait is random, short at
 * first, in a range that grows from 250 to 500 ms up to 250 to 2,000 ms.
 *
 * @param timesTurnedAway how often in a row; 0 if only the answer was lost
 * @param random from 0 to 1
 */
export function askAgainAfterMs(timesTurnedAway: number, random: number): number {
  if (timesTurnedAway === 0) return RETRY_AFTER_MS;
  const longestMs = Math.min(LONGEST_MS, RETRY_AFTER_MS * 2 ** timesTurnedAway);
  return RETRY_AFTER_MS + random * (longestMs - RETRY_AFTER_MS);
}

/** A follow-up whose budget is silent waits as long as the budget has been silent, within these bounds. */
const SHORTEST_SILENT_WAIT_MS = 5_000;
const LONGEST_SILENT_WAIT_MS = 5 * 60_000;

/**
 * If many wait for a silent budget, their asks are this far apart, but each of them asks at least once an hour. The
 * first to ask finds out for all whether the budget is back, and then they are woken.
 */
const SILENT_ASKS_APART_MS = 45_000;
const LONGEST_AMONG_MANY_MS = 60 * 60_000;

/**
 * When a follow-up of a silent budget asks again.
 *
 * @param silence.lastAtMs when the follow-up that was told so last asks again; on the same clock as `nowMs`
 * @param silence.random from 0 to 1
 */
export function asksSilentBudgetAtMs(
  nowMs: number,
  { silentForMs, lastAtMs, random }: { silentForMs: number; lastAtMs: number; random: number },
): number {
  const share = 0.75 + random / 2;
  const alone = Math.min(Math.max(SHORTEST_SILENT_WAIT_MS, silentForMs), LONGEST_SILENT_WAIT_MS) * share;
  // Only the step is random. Randomness of whole waits would add up from one to the next and shorten them all.
  const amongMany = Math.min(lastAtMs + SILENT_ASKS_APART_MS * share - nowMs, LONGEST_AMONG_MANY_MS);
  return nowMs + Math.max(alone, amongMany);
}

/** Words that wait go out earlier if there are this many. */
export const ENOUGH_FOR_REPORT = 10;

/**
 * A word that travels with an ask goes out by a signal, too, if the ask has no answer by then: the server keeps a signal
 * for a budget that does not answer. The budget may hear a word twice.
 */
export const ALONG_FOR_MS = 2_000;

/** A word that leaves this long after it was given. A settle says so, because its slot is held from the end of the send. */
export function toldAfterMs(word: BudgetWord, ms: number): BudgetWord {
  return word.kind === 'settle' ? { ...word, agoMs: Math.floor(ms) } : word;
}

/**
 * Whether the budget needs to know at once how a send ended: if that lets others send, or if the message was not taken.
 */
export function isSettleUrgent(outcome: SendOutcome, { isAwaited = false }: { isAwaited?: boolean }): boolean {
  return isAwaited || outcome !== 'sent';
}

/**
 * How long a follow-up keeps asking in its activity, counted from the start of the sends in flight. On a busy machine, ten
 * sends take up to 3 s. A follow-up that goes back to its workflow before they end leaves a slot idle for a second. While
 * sends hang, the follow-ups of a worker cost the budget four asks a second.
 */
const IN_PLACE_FOR_MS = 3_000;

/**
 * After how long a follow-up that waits only for sends in flight asks again from within its activity, and for how long
 * it does so, in milliseconds; `undefined` if it goes back to its workflow.
 */
export function asksInPlace({
  answer,
  proven,
}: {
  answer: AcquireAnswer;
  proven: boolean;
}): { afterMs: number; forMs: number } | undefined {
  if (!proven || answer.kind !== 'wait' || answer.askInPlaceAfterMs === undefined) return undefined;
  return { afterMs: answer.askInPlaceAfterMs, forMs: answer.askInPlaceAfterMs + IN_PLACE_FOR_MS };
}

/** What an attempt leaves with the server before it sends, for later attempts. */
export interface GrantMark {
  ledgerSinceMs: number;
}

/** What a follow-up knows of earlier asks. */
export interface KnownBefore {
  grantedBefore?: GrantedBefore;
  provenNotSent?: true;
  ledgerSinceMs?: number;
}

/**
 * What an attempt knows of earlier asks. An attempt that was granted has left its mark. If an operator reset the
 * activity, its attempts are counted again from 1 and its marks may be gone. Only the first attempt can tell that this
 * did not happen.
 *
 * @param told what the follow-up knew when it scheduled the activity
 * @param attempt.number from 1
 * @param attempt.isReset whether the attempt count was reset
 */
export function knownBefore(
  told: { [Name in keyof KnownBefore]?: KnownBefore[Name] | undefined },
  { number, isReset, mark }: { number: number; isReset: boolean; mark: GrantMark | undefined },
): KnownBefore {
  const grantedBefore = mark ? 'surely' : (told.grantedBefore ?? (isReset ? 'perhaps' : undefined));
  const ledgerSinceMs = mark?.ledgerSinceMs ?? told.ledgerSinceMs;
  return {
    ...defined({ grantedBefore }),
    ...(told.provenNotSent && number === 1 && !grantedBefore && { provenNotSent: true }),
    ...defined({ ledgerSinceMs }),
  };
}
