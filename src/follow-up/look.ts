import { type AgentJob, formatDuration, isTerminalStatus } from '../contract/index.js';
import { fingerprint } from './belief.js';
import type { GetJobResult, Shown, Trouble, WatchOrder, WatchResult } from './port.js';

/** Number of reads in a row that must not find a job before it counts as missing. */
export const NOT_FOUND_LIMIT = 3;

/** Number of failed reads in a row before people are shown that the job cannot be read. */
const UNREADABLE_AFTER_FAILURES = 3;

/** Longest part of a status in the message of an attempt. */
const MAX_STATUS_LENGTH = 40;

/** An attempt of a watch, as the server counts and times it. */
export interface Attempt {
  number: number;
  nowMs: number;
  /** Failed reads in a row before it. */
  failuresBefore: number;
  /** From 0 to 1. */
  random: number;
}

/** The result of an attempt: the end of the watch, or another attempt after `delayMs`. */
export type Look =
  | ({ kind: 'end' } & WatchResult)
  | { kind: 'again'; delayMs: number; failures: number; looks: number; message: string };

export function shownOf(job: AgentJob, trouble: Trouble | null): Shown {
  return { ...fingerprint(job), trouble };
}

/**
 * Whether a read shows something that people have not seen.
 *
 * @param failures failed reads in a row, including this one
 */
export function isNewToPeople(since: Shown, read: GetJobResult, failures: number): boolean {
  if (read.kind !== 'job') return troubleShown(since.trouble, read, failures) !== since.trouble;
  const now = shownOf(read.job, null);
  return (Object.keys(now) as (keyof Shown)[]).some((field) => now[field] !== since[field]);
}

/** What people are shown of a read's trouble. Before the third failure in a row, it is what they were shown before. */
export function troubleShown(before: Trouble | null, read: GetJobResult, failures: number): Trouble | null {
  const trouble = troubleOf(read);
  return trouble === 'unreadable' && failures < UNREADABLE_AFTER_FAILURES ? before : trouble;
}

/** Failed reads in a row, including `read`. */
export function failuresAfter(before: number, read: GetJobResult): number {
  return troubleOf(read) === 'unreadable' ? before + 1 : 0;
}

/** What kept a job from being read. */
function troubleOf(read: GetJobResult): Trouble | null {
  if (read.kind === 'job') return null;
  if (read.kind === 'notFound') return 'notFound';
  return isKeyRefused(read) ? 'key' : 'unreadable';
}

export function isKeyRefused(read: GetJobResult): boolean {
  return read.kind === 'failed' && (read.reason === 'unauthorized' || read.reason === 'no-key');
}

/** When a watch has to end at the latest, because a decision depends on the time. */
export function watchUntilMs(
  since: Shown,
  { settledAtMs, notBeforeMs, timeoutAtMs }: { settledAtMs: number; notBeforeMs: number; timeoutAtMs: number },
): number {
  // A terminal status that is not believed yet becomes believed when the settle time has passed.
  const decidedAtMs = isTerminalStatus(since.status ?? undefined) ? Math.max(settledAtMs, notBeforeMs) : Infinity;
  return Math.min(decidedAtMs, timeoutAtMs);
}

/**
 * The server makes the first attempt at once. Returns when to try again if that is too early, or `undefined` to look
 * now.
 */
export function waitBeforeLook(
  { jobId, notBeforeMs, untilMs }: WatchOrder,
  { number, nowMs, failuresBefore }: Attempt,
): Extract<Look, { kind: 'again' }> | undefined {
  const delayMs = Math.min(notBeforeMs, untilMs) - nowMs;
  if (number > 1 || delayMs <= 0) return undefined;
  const message = `${jobId} is watched; first look in ${formatDuration(delayMs)}`;
  return { kind: 'again', delayMs, failures: failuresBefore, looks: 0, message };
}

export function judgeLook(order: WatchOrder, attempt: Attempt, read: GetJobResult): Look {
  const { jobId, since, poll, startedAtMs, notBeforeMs, untilMs } = order;
  const { nowMs, random } = attempt;
  // The first attempt did not look if it was too early.
  const looks = Math.max(1, attempt.number - (startedAtMs < Math.min(notBeforeMs, untilMs) ? 1 : 0));
  let intervalMs = order.intervalMs;
  for (let look = 0; look < looks && intervalMs < poll.maxIntervalMs; look++) {
    intervalMs = nextInterval(intervalMs, poll);
  }
  const failures = failuresAfter(attempt.failuresBefore, read);
  const retryAfterMs = read.kind === 'failed' ? (read.retryAfterMs ?? 0) : 0;
  // The flow applies a Retry-After that goes beyond the end to the next watch.
  const isOver = nowMs >= untilMs || nowMs + retryAfterMs > untilMs;
  if (isOver || isNewToPeople(since, read, failures)) return { kind: 'end', read, looks, intervalMs, failures };
  const delayMs = Math.min(Math.max(jittered(intervalMs, random), retryAfterMs), untilMs - nowMs);
  const what =
    read.kind === 'job'
      ? `is ${read.job.status?.slice(0, MAX_STATUS_LENGTH) ?? 'without a status'}`
      : `cannot be read: ${read.message}`;
  const message = `${jobId} ${what}; look ${looks}; next in ${formatDuration(delayMs)}`;
  return { kind: 'again', delayMs, failures, looks, message };
}

/**
 * Each wait between two polls varies by this share in either direction, so that follow-ups that started together drift
 * apart.
 */
const JITTER = 0.1;

/** Backoff of sends and reads that fail before the send: 1 s, doubling up to 60 s. */
const FIRST_BACKOFF_MS = 1_000;
const LONGEST_BACKOFF_MS = 60_000;

/**
 * Varies a wait by up to 10 % in either direction.
 *
 * @param random from 0 to 1
 */
export function jittered(ms: number, random: number): number {
  return Math.round(ms * (1 - JITTER + 2 * JITTER * random));
}

/** The wait that follows a wait of `currentMs`. */
export function nextInterval(currentMs: number, poll: { maxIntervalMs: number; backoffCoefficient: number }): number {
  return Math.min(poll.maxIntervalMs, currentMs * poll.backoffCoefficient);
}

/** How long to wait before repeating something that failed `failures` times in a row. */
export function backoffMs(failures: number): number {
  return Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** Math.max(0, Math.min(failures - 1, 10)));
}
