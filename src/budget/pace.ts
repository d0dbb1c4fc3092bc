import type { Refusal } from '../contract/index.js';

/** Most sends in progress. Limits how many a crash leaves unknown, and how many a service refuses at once. */
const MAX_AT_ONCE = 10;
/** First and longest pause after a 429, as shares of the window: 30 s and 10 min of an hour. */
const FIRST_LIMITED_SHARE = 1 / 120;
const LONGEST_LIMITED_SHARE = 1 / 6;
/** After any other refusal another message is tried soon, because it may concern one message alone. */
const FIRST_REFUSED_MS = 1_000;
/** A message without a clear response costs its follow-up, so it is not tried soon. */
const FIRST_OUTAGE_MS = 30_000;
export const LONGEST_PAUSE_MS = 600_000;
const SHORTEST_PAUSE_MS = 1_000;
const HOUR_MS = 3_600_000;
/** A pause is this many times as long after each refused probe. */
const PAUSE_GROWTH = 4;
/** This many messages in a row without a clear response, and none accepted between, mean that the service is down. */
const OUTAGE_UNKNOWNS = 3;
/** The time between sends grows after each run of 429s, and shrinks with each accepted message. */
const SPACING_GROWTH = 1.15;
const SPACING_DECAY = 0.995;
/** Longest time between sends, as a multiple of the budget's own. */
const MAX_SPACING = 4;
/** Spacing ends, and probes at the ends of turns begin again, after 1, 2, 4, up to this many windows. */
const MAX_WINDOWS = 32;
/** As many probes at the ends of turns in a row prove that the service limits the jobs at work. */
const PROVEN_TURN_PROBES = 2;

/**
 * How fast the service takes messages, learned from its responses. A 429 while the budget has free slots means that the
 * service counts otherwise, so messages are then spaced evenly over the window.
 */
export interface Pace {
  /** Set while the service refuses messages. From `untilMs` on one send at a time probes, until one is accepted. */
  pause?: ServicePause;
  /** 1 after a pause, then twice as many with each accepted message. */
  atOnce: number;
  /** Least time from one outcome to the next grant, learned from 429s below the limit. */
  spacingMs?: number;
  isSpaced: boolean;
  lastLimitedAtMs: number;
  /** For how many windows spacing lasts without another 429. */
  spacedWindows: number;
  /** Of the message that was accepted last: its grant, and its response. */
  accepted: { grantedAtMs: number; atMs: number };
  /** Of any message. */
  outcomeAtMs: number;
  unknownInARow: number;
  /**
   * `room`: turns that have ended since the last 429, less the messages that were accepted since. `acceptedInARow`:
   * probes at the ends of turns.
   */
  turns: { room: number; acceptedInARow: number; ignoredUntilMs: number; ignoredWindows: number };
}

export interface ServicePause {
  reason: Refusal;
  /** HTTP status of the latest refusal, if known. */
  statusCode?: number;
  sinceMs: number;
  untilMs: number;
  /** No probe is earlier: the latest Retry-After. */
  retryAtMs: number;
  /** Number of refused probes. */
  step: number;
}

export function newPace(): Pace {
  return {
    atOnce: MAX_AT_ONCE,
    isSpaced: false,
    lastLimitedAtMs: 0,
    spacedWindows: 1,
    accepted: { grantedAtMs: 0, atMs: 0 },
    outcomeAtMs: 0,
    unknownInARow: 0,
    turns: newTurns(),
  };
}

const newTurns = (): Pace['turns'] => ({ room: 0, acceptedInARow: 0, ignoredUntilMs: 0, ignoredWindows: 1 });

/** The budget's own count. */
export interface Window {
  windowMs: number;
  limit: number;
  used: number;
}

/** `free` outside pauses, else a probe: when its time had come, or early, at the end of a turn. */
export type GrantKind = 'free' | Probe;
export type Probe = 'due' | 'turn';

/** The kind of the next grant; `undefined` if none may be made now. */
export function nextGrant(pace: Pace, underWay: number, nowMs: number): GrantKind | undefined {
  const { pause, isSpaced, turns } = pace;
  if (!pause && !isSpaced) return underWay < pace.atOnce ? 'free' : undefined;
  if (underWay > 0) return undefined;
  if (nowMs >= nextGrantAtMs(pace)) return pause ? 'due' : 'free';
  const isLimited = !pause || (pause.reason === 'limited' && nowMs >= pause.retryAtMs);
  return isLimited && turns.room > 0 && nowMs >= turns.ignoredUntilMs ? 'turn' : undefined;
}

/** When the next grant may be made, except at the end of a turn. In the past if there is no need to wait. */
export function nextGrantAtMs({ pause, isSpaced, spacingMs = 0, outcomeAtMs }: Pace): number {
  if (pause) return pause.untilMs;
  return isSpaced ? outcomeAtMs + spacingMs : 0;
}

/** Times at which {@link nextGrant} may change by itself. */
export function changesMs(pace: Pace): number[] {
  return [nextGrantAtMs(pace), pace.pause?.retryAtMs ?? 0, pace.turns.ignoredUntilMs];
}

/** Notes an accepted message. */
export function noteAccepted(
  pace: Pace,
  send: { grantedAtMs: number; probe?: Probe | undefined },
  window: Window,
  nowMs: number,
): void {
  const { pause, turns } = pace;
  pace.accepted = { grantedAtMs: Math.max(pace.accepted.grantedAtMs, send.grantedAtMs), atMs: nowMs };
  turns.room -= 1;
  if (send.probe === 'turn') {
    turns.acceptedInARow += 1;
    turns.ignoredWindows = 1;
    // The service still accepts one message for each turn that ends.
    if (pause) return;
  }
  // A message that was under way before a 429 may have been accepted before it.
  const mayBeOlder = pause?.reason === 'limited' || nowMs < (pause?.retryAtMs ?? 0);
  if (mayBeOlder && send.probe !== 'due') return;
  delete pace.pause;
  pace.atOnce = Math.min(MAX_AT_ONCE, 2 * pace.atOnce);
  if (pace.spacingMs === undefined) return;
  const shortestMs = window.windowMs / Math.max(1, window.limit);
  pace.spacingMs = Math.ceil(Math.max(shortestMs, pace.spacingMs * SPACING_DECAY));
  // If the service limits the jobs at work, each try without spacing would be refused.
  const windows = turns.acceptedInARow >= PROVEN_TURN_PROBES ? MAX_WINDOWS : pace.spacedWindows;
  if (!pace.isSpaced || nowMs - pace.lastLimitedAtMs <= windows * window.windowMs) return;
  pace.isSpaced = false;
  pace.atOnce = 1;
  pace.spacedWindows = Math.min(MAX_WINDOWS, 2 * pace.spacedWindows);
}

export interface ProjectRefusal {
  reason: Refusal;
  statusCode?: number | undefined;
  retryAfterMs?: number | undefined;
  /** Of the refused send. */
  probe?: Probe | undefined;
  /** Whether the message was refused before, which says nothing new about others. */
  isRepeated?: boolean;
}

/** Pauses the project, or continues its pause. */
export function noteRefused(pace: Pace, refusal: ProjectRefusal, window: Window, nowMs: number): void {
  const { reason, statusCode, probe, isRepeated } = refusal;
  const { windowMs, limit, used } = window;
  const isFirst = !pace.pause;
  // It may concern this message alone, until a probe by another one is refused, too.
  const retryAfterMs = isFirst || isRepeated || !probe ? undefined : refusal.retryAfterMs;
  // What was under way, or came early, says nothing about the end of a limit.
  if (reason !== 'limited' && pace.pause?.reason === 'limited' && probe !== 'due') return;
  if (reason === 'limited') {
    // What was learned long ago is no longer true.
    if (nowMs - pace.lastLimitedAtMs > 2 * pace.spacedWindows * windowMs) forgetLimit(pace);
    if (nowMs - pace.accepted.atMs > windowMs) pace.turns.acceptedInARow = 0;
    pace.lastLimitedAtMs = nowMs;
    pace.turns.room = 0;
    if (isFirst && used < limit) {
      const growth = pace.isSpaced ? SPACING_GROWTH : 1;
      const shortestMs = windowMs / limit;
      const longerMs = Math.min((pace.spacingMs ?? shortestMs) * growth, MAX_SPACING * shortestMs);
      pace.spacingMs = Math.ceil(longerMs);
      pace.isSpaced = true;
    }
  }
  if (probe === 'turn') {
    const { ignoredWindows: windows } = pace.turns;
    const ignoredUntilMs = nowMs + windows * windowMs;
    pace.turns = { ...newTurns(), ignoredUntilMs, ignoredWindows: Math.min(MAX_WINDOWS, 2 * windows) };
  }
  const {
    sinceMs,
    untilMs,
    retryAtMs,
    step: before,
  } = pace.pause ?? { sinceMs: nowMs, untilMs: 0, retryAtMs: 0, step: 0 };
  const isNew = !isRepeated || reason === 'limited';
  const step = before + (probe === 'due' && !isFirst && isNew ? 1 : 0);
  const pauseMs = Math.max(retryAfterMs ?? 0, pauseOf(pace, { reason, retryAfterMs }, window, step));
  pace.pause = {
    reason,
    ...(statusCode !== undefined && { statusCode }),
    sinceMs,
    untilMs: Math.max(probe === 'turn' ? retryAtMs : untilMs, nowMs + pauseMs),
    retryAtMs: Math.max(retryAtMs, nowMs + (retryAfterMs ?? 0)),
    step,
  };
  pace.atOnce = 1;
}

function pauseOf(
  { spacingMs = 0, turns }: Pace,
  { reason, retryAfterMs }: ProjectRefusal,
  { windowMs }: Window,
  step: number,
): number {
  const growth = PAUSE_GROWTH ** step;
  if (reason !== 'limited')
    return Math.min(LONGEST_PAUSE_MS, (reason === 'outage' ? FIRST_OUTAGE_MS : FIRST_REFUSED_MS) * growth);
  // The ends of turns bring probes, so there is no need for others.
  const isProven = turns.acceptedInARow >= PROVEN_TURN_PROBES;
  const longestMs = windowMs * LONGEST_LIMITED_SHARE;
  if (isProven && (step > 0 || retryAfterMs !== undefined)) return Math.max(longestMs, Math.min(windowMs, HOUR_MS));
  const firstMs = retryAfterMs === undefined ? Math.max(windowMs * FIRST_LIMITED_SHARE, spacingMs) : SHORTEST_PAUSE_MS;
  return Math.max(SHORTEST_PAUSE_MS, Math.min(longestMs, firstMs * growth));
}

/** Forgets what 429s have taught about the service's limit. */
export function forgetLimit(pace: Pace): void {
  Object.assign(pace, { isSpaced: false, spacedWindows: 1, turns: newTurns() });
  delete pace.spacingMs;
}

/** Notes the outcome of a message, or that it `isUnknown`. Returns whether the service seems to be down. */
export function noteOutcome(pace: Pace, isUnknown: boolean, nowMs: number): boolean {
  // A service that is rarely used is not down because of what happened hours ago.
  const isOld = !pace.pause && nowMs - pace.outcomeAtMs > HOUR_MS;
  pace.outcomeAtMs = nowMs;
  pace.unknownInARow = isUnknown ? (isOld ? 0 : pace.unknownInARow) + 1 : 0;
  if (isUnknown) pace.atOnce = 1;
  return pace.unknownInARow >= OUTAGE_UNKNOWNS;
}

/** Notes the end of a turn, which may have made room at a service that limits the jobs at work. */
export function noteTurnEnded({ turns }: Pace): void {
  turns.room = Math.min(MAX_AT_ONCE, turns.room + 1);
}
