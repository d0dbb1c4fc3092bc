import type { Refusal } from '../contract/index.js';
import {
  hasRoom,
  ignoreTurns,
  type LearnedLimit,
  learnLimit,
  limitsJobsAtWork,
  MAX_AT_ONCE,
  newLearnedLimit,
  noteRoomUsed,
  relaxSpacing,
  type Window,
} from './learned-limit.js';

/** First and longest pause after a 429, as shares of the window: 30 s and 10 min of an hour. */
const FIRST_LIMITED_SHARE = 1 / 120;
const LONGEST_LIMITED_SHARE = 1 / 6;
/** After any other refusal another message is tried soon, because it may concern one message alone. */
const FIRST_REFUSED_MS = 1_000;
/** A message without a clear response may end its follow-up, so the next one is tried later. */
const FIRST_OUTAGE_MS = 30_000;
export const LONGEST_PAUSE_MS = 600_000;
const SHORTEST_PAUSE_MS = 1_000;
const HOUR_MS = 3_600_000;
/** A pause is this many times as long after each refused probe. */
const PAUSE_GROWTH = 4;
/** This many messages in a row without a clear response, and none accepted between, mean that the service is down. */
const OUTAGE_UNKNOWNS = 3;

/** How fast the service takes messages, learned from its responses. */
export interface Pace {
  /** Set while the service refuses messages. From `untilMs` on one send at a time probes, until one is accepted. */
  pause?: ServicePause;
  /** 1 after a pause, then twice as many with each accepted message. */
  atOnce: number;
  limit: LearnedLimit;
  /** The latest grant whose message was accepted. */
  acceptedGrantAtMs: number;
  /** Of any message. */
  outcomeAtMs: number;
  unknownInARow: number;
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
    limit: newLearnedLimit(),
    acceptedGrantAtMs: 0,
    outcomeAtMs: 0,
    unknownInARow: 0,
  };
}

/** `free` outside pauses, else a probe: when its time had come, or early, at the end of a turn. */
export type GrantKind = 'free' | Probe;
export type Probe = 'due' | 'turn';

/** The kind of the next grant; `undefined` if none may be made now. */
export function nextGrant(pace: Pace, underWay: number, nowMs: number): GrantKind | undefined {
  const { pause, limit } = pace;
  if (!pause && !limit.isSpaced) return underWay < pace.atOnce ? 'free' : undefined;
  if (underWay > 0) return undefined;
  if (nowMs >= nextGrantAtMs(pace)) return pause ? 'due' : 'free';
  const isLimited = !pause || (pause.reason === 'limited' && nowMs >= pause.retryAtMs);
  return isLimited && hasRoom(limit, nowMs) ? 'turn' : undefined;
}

/** When the next grant may be made, except at the end of a turn. In the past if there is no need to wait. */
export function nextGrantAtMs({ pause, limit, outcomeAtMs }: Pace): number {
  if (pause) return pause.untilMs;
  return limit.isSpaced ? outcomeAtMs + (limit.spacingMs ?? 0) : 0;
}

/** Times at which {@link nextGrant} may change by itself. */
export function changesMs(pace: Pace): number[] {
  return [nextGrantAtMs(pace), pace.pause?.retryAtMs ?? 0, pace.limit.turns.ignoredUntilMs];
}

/** Notes an accepted message. */
export function noteAccepted(
  pace: Pace,
  send: { grantedAtMs: number; probe?: Probe | undefined },
  window: Window,
  nowMs: number,
): void {
  const { pause, limit } = pace;
  pace.acceptedGrantAtMs = Math.max(pace.acceptedGrantAtMs, send.grantedAtMs);
  noteRoomUsed(limit, send.probe === 'turn');
  // An accepted message may be older than the pause, or have taken the place of a turn that ended: then only a probe that
  // was due ends the pause.
  const mayBeOlder = pause?.reason === 'limited' || nowMs < (pause?.retryAtMs ?? 0);
  if (mayBeOlder && send.probe !== 'due') return;
  delete pace.pause;
  pace.atOnce = relaxSpacing(limit, window, nowMs) ? 1 : Math.min(MAX_AT_ONCE, 2 * pace.atOnce);
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
  const { pause, limit } = pace;
  const isFirst = !pause;
  // It may concern this message alone, until a probe by another one is refused, too.
  const retryAfterMs = isRepeated || !probe ? undefined : refusal.retryAfterMs;
  // What was under way, or came early, says nothing about the end of a limit.
  if (reason !== 'limited' && pause?.reason === 'limited' && probe !== 'due') return;
  if (reason === 'limited') learnLimit(limit, { isFirst, acceptedAtMs: pace.acceptedGrantAtMs }, window, nowMs);
  if (probe === 'turn') ignoreTurns(limit, window, nowMs);
  const before = pause ?? { sinceMs: nowMs, untilMs: 0, retryAtMs: 0, step: 0 };
  const isNew = !isRepeated || reason === 'limited';
  const step = before.step + (probe === 'due' && !isFirst && isNew ? 1 : 0);
  const pauseMs = Math.max(retryAfterMs ?? 0, pauseMsOf(limit, { reason, retryAfterMs }, window, step));
  pace.pause = {
    reason,
    ...(statusCode !== undefined && { statusCode }),
    sinceMs: before.sinceMs,
    untilMs: Math.max(probe === 'turn' ? before.retryAtMs : before.untilMs, nowMs + pauseMs),
    retryAtMs: Math.max(before.retryAtMs, nowMs + (retryAfterMs ?? 0)),
    step,
  };
  pace.atOnce = 1;
}

function pauseMsOf(
  limit: LearnedLimit,
  { reason, retryAfterMs }: ProjectRefusal,
  { windowMs }: Window,
  step: number,
): number {
  const growth = PAUSE_GROWTH ** step;
  if (reason !== 'limited')
    return Math.min(LONGEST_PAUSE_MS, (reason === 'outage' ? FIRST_OUTAGE_MS : FIRST_REFUSED_MS) * growth);
  const longestMs = windowMs * LONGEST_LIMITED_SHARE;
  // The ends of turns bring probes, so there is no need for others.
  if (limitsJobsAtWork(limit) && (step > 0 || retryAfterMs !== undefined))
    return Math.max(longestMs, Math.min(windowMs, HOUR_MS));
  const { spacingMs = 0 } = limit;
  const firstMs = retryAfterMs === undefined ? Math.max(windowMs * FIRST_LIMITED_SHARE, spacingMs) : SHORTEST_PAUSE_MS;
  return Math.max(SHORTEST_PAUSE_MS, Math.min(longestMs, firstMs * growth));
}

/** Notes the outcome of a message, or that it `isUnknown`. Returns whether the service seems to be down. */
export function noteOutcome(pace: Pace, isUnknown: boolean, nowMs: number): boolean {
  pace.outcomeAtMs = nowMs;
  pace.unknownInARow = isUnknown ? pace.unknownInARow + 1 : 0;
  if (isUnknown) pace.atOnce = 1;
  return pace.unknownInARow >= OUTAGE_UNKNOWNS;
}
