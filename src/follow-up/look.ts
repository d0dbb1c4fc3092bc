import { formatDuration, isTerminalStatus, type AgentJob } from '../contract/index.js';
import { jittered, nextInterval } from './intervals.js';
import { fingerprint } from './job-state.js';
import type { GetJobResult, Shown, Trouble, WatchOrder, WatchResult } from './port.js';

/** Reads in a row that fail before people are shown that the job cannot be read. */
const UNREADABLE_AFTER_FAILURES = 3;

/** Longest part of a status that an attempt's words name. */
const MAX_STATUS_LENGTH = 40;

/** An attempt of a watch, as the server counts and times it. */
export interface Attempt {
  number: number;
  nowMs: number;
  /** Reads of earlier attempts that failed in a row. */
  failuresBefore: number;
  /** From 0 to 1. */
  random: number;
}

/** What an attempt comes to: the end of the watch, or another attempt after `delayMs`. */
export type Look =
  | ({ kind: 'end' } & WatchResult)
  | { kind: 'again'; delayMs: number; failures: number; looks: number; message: string };

/** What people are shown of a job. */
export function shownOf(job: AgentJob, trouble: Trouble | null): Shown {
  return { ...fingerprint(job), trouble };
}

/** Whether a read shows people something that they have not seen. */
export function isNewToPeople(since: Shown, read: GetJobResult, failuresInARow = 1): boolean {
  if (read.kind === 'job') {
    const now = shownOf(read.job, null);
    return (Object.keys(now) as (keyof Shown)[]).some((field) => now[field] !== since[field]);
  }
  const trouble = troubleOf(read);
  return trouble !== since.trouble && (trouble !== 'unreadable' || failuresInARow >= UNREADABLE_AFTER_FAILURES);
}

/** What kept a job from being read. */
export function troubleOf(read: GetJobResult): Trouble | null {
  if (read.kind === 'job') return null;
  if (read.kind === 'notFound') return 'notFound';
  return isKeyRefused(read) ? 'key' : 'unreadable';
}

/** Whether a read was refused for its key. */
export function isKeyRefused(read: GetJobResult): boolean {
  return read.kind === 'failed' && (read.reason === 'unauthorized' || read.reason === 'no-key');
}

/** When a watch has to end at the latest, for a decision hangs on the time by then. */
export function watchUntilMs(
  since: Shown,
  { settledAtMs, notBeforeMs, timeoutAtMs }: { settledAtMs: number; notBeforeMs: number; timeoutAtMs: number },
): number {
  // A terminal status that is not believed yet is believed once the settle time has passed.
  const decidedAtMs = isTerminalStatus(since.status ?? undefined) ? Math.max(settledAtMs, notBeforeMs) : Infinity;
  return Math.min(decidedAtMs, timeoutAtMs);
}

/** The first attempt comes at once: when to come again, where that is too early. `undefined`: look now. */
export function waitBeforeLook(
  { jobId, notBeforeMs, untilMs }: WatchOrder,
  { number, nowMs, failuresBefore }: Attempt,
): Extract<Look, { kind: 'again' }> | undefined {
  const delayMs = Math.min(notBeforeMs, untilMs) - nowMs;
  if (number > 1 || delayMs <= 0) return undefined;
  const message = `${jobId} is watched; first look in ${formatDuration(delayMs)}`;
  return { kind: 'again', delayMs, failures: failuresBefore, looks: 0, message };
}

/** What a read means for the watch. */
export function judgeLook(order: WatchOrder, attempt: Attempt, read: GetJobResult): Look {
  const { jobId, since, poll, startedAtMs, notBeforeMs, untilMs } = order;
  const { nowMs, random } = attempt;
  // The first attempt did not look where it came too early.
  const looks = Math.max(1, attempt.number - (startedAtMs < Math.min(notBeforeMs, untilMs) ? 1 : 0));
  let intervalMs = order.intervalMs;
  for (let look = 0; look < looks && intervalMs < poll.maxIntervalMs; look++) {
    intervalMs = nextInterval(intervalMs, poll);
  }
  const failures = troubleOf(read) === 'unreadable' ? attempt.failuresBefore + 1 : 0;
  const retryAfterMs = read.kind === 'failed' ? (read.retryAfterMs ?? 0) : 0;
  // A Retry-After that leads beyond the end is for the flow, which begins the next watch.
  const isOver = nowMs >= untilMs || nowMs + retryAfterMs > untilMs;
  if (isOver || isNewToPeople(since, read, failures)) return { kind: 'end', read, looks, intervalMs };
  const delayMs = Math.min(Math.max(jittered(intervalMs, random), retryAfterMs), untilMs - nowMs);
  const what =
    read.kind === 'job'
      ? `is ${read.job.status?.slice(0, MAX_STATUS_LENGTH) ?? 'without a status'}`
      : `cannot be read: ${read.message}`;
  const message = `${jobId} ${what}; look ${looks}; next in ${formatDuration(delayMs)}`;
  return { kind: 'again', delayMs, failures, looks, message };
}
