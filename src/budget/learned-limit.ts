// What 429s teach about a service that counts otherwise than the budget. One that counts messages takes them evenly spaced
// over the window. One that counts jobs at work takes a message for each turn that ends.

/** The time between sends grows after each run of 429s, and shrinks with each accepted message. */
const SPACING_GROWTH = 1.15;
const SPACING_DECAY = 0.995;
/** Longest time between sends, as a multiple of the budget's own. */
const MAX_SPACING = 4;
/** Spacing ends after this many windows without a 429, and so does the time in which ends of turns are ignored. */
const LEARNED_WINDOWS = 2;
/** As many probes at the ends of turns in a row prove that the service limits the jobs at work. */
const PROVEN_TURN_PROBES = 2;
/** Most sends in progress. Limits how many a crash leaves unknown, and how many a service refuses at once. */
export const MAX_AT_ONCE = 10;

export interface LearnedLimit {
  /** Least time from one outcome to the next grant, learned from 429s below the limit. */
  spacingMs?: number;
  isSpaced: boolean;
  lastLimitedAtMs: number;
  /**
   * `room`: turns that have ended since the last 429, less the messages that were accepted since. `acceptedInARow`:
   * probes at the ends of turns.
   */
  turns: { room: number; acceptedInARow: number; ignoredUntilMs: number };
}

export function newLearnedLimit(): LearnedLimit {
  return { isSpaced: false, lastLimitedAtMs: 0, turns: newTurns() };
}

const newTurns = (): LearnedLimit['turns'] => ({ room: 0, acceptedInARow: 0, ignoredUntilMs: 0 });

/** Messages that the budget allows in a rolling window: at least one. */
export interface Window {
  windowMs: number;
  limit: number;
}

export function forgetLimit(limit: LearnedLimit): void {
  Object.assign(limit, { isSpaced: false, turns: newTurns() });
  delete limit.spacingMs;
}

/**
 * Learns from a 429.
 *
 * @param more.isFirst whether it begins a pause
 * @param more.acceptedAtMs when the latest message that was accepted was granted
 */
export function learnLimit(
  limit: LearnedLimit,
  { isFirst, acceptedAtMs }: { isFirst: boolean; acceptedAtMs: number },
  window: Window,
  nowMs: number,
): void {
  const { windowMs } = window;
  // What was learned long ago is no longer true.
  if (nowMs - limit.lastLimitedAtMs > 2 * LEARNED_WINDOWS * windowMs) forgetLimit(limit);
  // No turn may be under way whose end could be awaited.
  if (nowMs - acceptedAtMs > windowMs) limit.turns.acceptedInARow = 0;
  limit.lastLimitedAtMs = nowMs;
  limit.turns.room = 0;
  if (!isFirst) return;
  const growth = limit.isSpaced ? SPACING_GROWTH : 1;
  const shortestMs = windowMs / window.limit;
  const longerMs = Math.min((limit.spacingMs ?? shortestMs) * growth, MAX_SPACING * shortestMs);
  limit.spacingMs = Math.ceil(longerMs);
  limit.isSpaced = true;
}

/** Shortens the spacing after an accepted message. Returns whether the spacing ends. */
export function relaxSpacing(limit: LearnedLimit, window: Window, nowMs: number): boolean {
  if (limit.spacingMs === undefined) return false;
  const shortestMs = window.windowMs / window.limit;
  limit.spacingMs = Math.ceil(Math.max(shortestMs, limit.spacingMs * SPACING_DECAY));
  if (!limit.isSpaced || nowMs - limit.lastLimitedAtMs <= LEARNED_WINDOWS * window.windowMs) return false;
  limit.isSpaced = false;
  return true;
}

/** Notes the end of a turn, which may have made room for a message. More room than can be used at once is forgotten. */
export function noteTurnEnded({ turns }: LearnedLimit): void {
  turns.room = Math.min(MAX_AT_ONCE, turns.room + 1);
}

/** @param isTurnProbe whether the message was sent early, at the end of a turn */
export function noteRoomUsed({ turns }: LearnedLimit, isTurnProbe: boolean): void {
  turns.room -= 1;
  if (isTurnProbe) turns.acceptedInARow += 1;
}

/** Whether the end of a turn allows a probe. */
export function hasRoom({ turns }: LearnedLimit, nowMs: number): boolean {
  return turns.room > 0 && nowMs >= turns.ignoredUntilMs;
}

/** The service refused a message at the end of a turn: it counts something else, so no such probes follow for a while. */
export function ignoreTurns(limit: LearnedLimit, { windowMs }: Window, nowMs: number): void {
  limit.turns = { ...newTurns(), ignoredUntilMs: nowMs + LEARNED_WINDOWS * windowMs };
}

/** Whether probes have proven that the service limits the jobs at work. */
export function limitsJobsAtWork({ turns }: LearnedLimit): boolean {
  return turns.acceptedInARow >= PROVEN_TURN_PROBES;
}
