import { z } from 'zod';
import { defined } from '../contract/defined.js';
import { iso } from '../contract/durations.js';
import type { FollowUpSettings } from '../contract/follow-up-input.js';
import { type AgentJob, agentJobSchema, isTerminalStatus, terminalStatuses } from '../contract/follow-up.js';
import { fingerprint, isAtWork, type JobFingerprint } from '../contract/protocol.js';

/** What a job shows this soon after another read or the send is not believed: replicas of the service may lag. */
const STALE_MS = 10_000;
/** A job counts as gone or unreadable after this many failed polls in a row, over at least this time. */
const LASTING_POLLS = 3;
const LASTING_MS = 30_000;
/** Each spell of trouble must last twice as long as the one before to be reported, up to about an hour. */
const MAX_DOUBLINGS = 7;

/** What one read of a job gave. */
export type Read =
  | { kind: 'job'; job: AgentJob }
  | { kind: 'notFound'; message: string }
  | { kind: 'failed'; reason: string; message: string; retryAfterMs?: number };

/**
 * What a watch waits for. `rest`: the job takes messages. `evidence`: the job shows that a message was delivered. `end`:
 * the message's turn ends.
 */
export type WatchGoal = 'rest' | 'evidence' | 'end';

export interface WatchOrder {
  projectId: string;
  jobId: string;
  until: WatchGoal;
  poll: FollowUpSettings['poll'];
  settleTimeMs: number;
  prLinkGraceMs: number;
  deadlineMs: number;
  /** Why the job could not be read, if people are shown that. */
  trouble: string | null;
  /** The job right before the send; empty if nobody knows it. */
  baseline: AgentJob;
  /** The baseline was read before this. */
  baselineAtMs: number;
  /** How the job looked at the end of the turn before. The baseline may lag behind it. */
  lastTurn?: JobFingerprint;
  /** The latest moment at which the message may have arrived. */
  arrivedByMs: number;
  /** The run that has the turn. Another run has to ask first. */
  runId: string;
  /** What earlier watches for the same have seen. */
  seen?: Seen;
}

const seenSchema = z.object({
  /** Reads of the job, including failed ones. */
  polls: z.number(),
  /** When it reads next. ISO 8601 in UTC. */
  nextPollAt: z.iso.datetime(),
  /** Of the last read, if it failed. */
  lastError: z.string().exactOptional(),
  /** The last job that was read, without fields that this project does not know. */
  job: agentJobSchema.exactOptional(),
  /** Whether the job was seen at work on this message. */
  observedActive: z.boolean(),
  /** When the job was last seen at work on any message. */
  activeAtMs: z.number().exactOptional(),
  intervalMs: z.number(),
  /** Since when a terminal status is believed. */
  endSeenAtMs: z.number().exactOptional(),
  /** Failed reads of one kind in a row, and since when. */
  failing: z.object({ kind: z.enum(['notFound', 'failed']), polls: z.number(), sinceMs: z.number() }).exactOptional(),
  /** How often people were shown that the job cannot be read. */
  troubles: z.number().exactOptional(),
});
/** What a watch has seen. The activity keeps it in its heartbeat, where people and programs read it. */
export type Seen = z.infer<typeof seenSchema>;

const watchEndSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['rest', 'evidence']), job: agentJobSchema }),
  z.object({ kind: z.literal('ended'), job: agentJobSchema.extend({ status: z.enum(terminalStatuses) }) }),
  z.object({ kind: z.literal('gone'), message: z.string() }),
  z.object({ kind: z.enum(['deadline', 'foreign']) }),
  /** The job cannot be read for a while, or (`null`) can be read again. */
  z.object({ kind: z.literal('trouble'), trouble: z.string().nullable() }),
]);
export type WatchEnd = z.infer<typeof watchEndSchema>;
const watchResultSchema = z.intersection(watchEndSchema, z.object({ seen: seenSchema }));
export type WatchResult = z.infer<typeof watchResultSchema>;

/** What a watch reported; `undefined` if it was typed by hand. */
export function readWatchResult(result: unknown): WatchResult | undefined {
  return watchResultSchema.safeParse(result).success ? (result as WatchResult) : undefined;
}

/** After a send the job is read after the first interval, otherwise at once. */
export function firstSeen(
  { until, poll, deadlineMs }: Pick<WatchOrder, 'until' | 'poll' | 'deadlineMs'>,
  nowMs: number,
): Seen {
  const firstAtMs = until === 'end' ? Math.min(nowMs + poll.initialIntervalMs, Math.max(nowMs, deadlineMs)) : nowMs;
  const nextPollAt = iso(firstAtMs);
  return { polls: 0, nextPollAt, observedActive: false, intervalMs: poll.initialIntervalMs };
}

/**
 * Another attempt goes on, which is scheduled for the next poll or later. An attempt that was taken late reckoned with an
 * earlier time. What it has seen counts as this much younger.
 */
export function takeOver(seen: Seen, scheduledAtMs: number): void {
  const lateMs = Math.max(0, scheduledAtMs - Date.parse(seen.nextPollAt));
  if (seen.activeAtMs !== undefined) seen.activeAtMs += lateMs;
  if (seen.endSeenAtMs !== undefined) seen.endSeenAtMs += lateMs;
  if (seen.failing) seen.failing.sinceMs += lateMs;
}

/** Adds a read to `seen`, and returns how the watch ends, if it does. */
export function judge(order: WatchOrder, seen: Seen, read: Read, nowMs: number): WatchEnd | undefined {
  seen.polls += 1;
  seen.intervalMs = Math.min(order.poll.maxIntervalMs, seen.intervalMs * order.poll.backoffCoefficient);
  if (read.kind === 'job') {
    delete seen.lastError;
    delete seen.failing;
    seen.job = knownFields(read.job);
    const end = judgeJob(order, seen, read.job, nowMs);
    if (end) return end;
  } else {
    seen.lastError = read.message;
    const { failing } = seen;
    if (failing?.kind === read.kind) failing.polls += 1;
    else seen.failing = { kind: read.kind, polls: 1, sinceMs: nowMs };
  }
  if (read.kind === 'notFound' && order.until !== 'evidence' && hasLasted(seen, LASTING_MS, nowMs)) {
    return { kind: 'gone', message: read.message };
  }
  if (nowMs >= order.deadlineMs) return { kind: 'deadline' };
  // Only the beginning and the end of trouble are reported, because kinds of trouble may alternate.
  if (read.kind === 'job') return order.trouble === null ? undefined : { kind: 'trouble', trouble: null };
  const { troubles = 0 } = seen;
  const lastingMs = LASTING_MS * 2 ** Math.min(MAX_DOUBLINGS, troubles);
  if (read.kind === 'notFound' || order.trouble !== null || !hasLasted(seen, lastingMs, nowMs)) return undefined;
  seen.troubles = troubles + 1;
  return { kind: 'trouble', trouble: read.reason };
}

function hasLasted({ failing }: Seen, ms: number, nowMs: number): boolean {
  return failing !== undefined && failing.polls >= LASTING_POLLS && nowMs - failing.sinceMs >= ms;
}

function judgeJob(order: WatchOrder, seen: Seen, job: AgentJob, nowMs: number): WatchEnd | undefined {
  const { until, baseline, baselineAtMs, arrivedByMs, settleTimeMs, prLinkGraceMs, deadlineMs } = order;
  if (until === 'rest') return isAtWork(job) ? undefined : { kind: 'rest', job: knownFields(job) };
  // If the job was at work before the send, what it shows may belong to that turn: only time counts.
  const wasAtRest = isTerminalStatus(baseline.status);
  // After the baseline has shown the end of the turn before, a replica that lags may still show that turn.
  const isFresh = nowMs - baselineAtMs >= Math.min(STALE_MS, settleTimeMs);
  if (until === 'evidence') {
    // Anyone may archive a job.
    const isTurn = isAtWork(job) || (job.status !== 'archived' && isNews(job, order));
    return wasAtRest && isTurn && isFresh ? { kind: 'evidence', job: knownFields(job) } : undefined;
  }
  if (isAtWork(job)) seen.activeAtMs = nowMs;
  seen.observedActive ||= isAtWork(job) && isFresh;
  const isSettled = nowMs - arrivedByMs >= settleTimeMs;
  const isNew = isNews(job, order);
  const isBelieved = isSettled || (wasAtRest && (seen.observedActive || isNew));
  if (!isTerminalStatus(job.status) || !isBelieved) {
    delete seen.endSeenAtMs;
    return undefined;
  }
  seen.endSeenAtMs ??= nowMs;
  // What looks like the end of the turn before may be just that, from a replica that lags or from between two turns.
  const { activeAtMs = 0, endSeenAtMs } = seen;
  const sinceMs = !wasAtRest ? endSeenAtMs : isNew ? arrivedByMs : activeAtMs;
  const isConfirmed = nowMs - Math.max(arrivedByMs, sinceMs) >= Math.min(STALE_MS, settleTimeMs);
  // An agent may complete its job some seconds before its pull request appears.
  const hasOwnLink = Boolean(job.prLink) && isLinkNew(job, order);
  const isGraceOver = nowMs - seen.endSeenAtMs >= prLinkGraceMs || nowMs >= deadlineMs;
  const isComplete = job.status !== 'completed' || hasOwnLink || isGraceOver;
  return isConfirmed && isComplete ? { kind: 'ended', job: { ...job, status: job.status } } : undefined;
}

/** Whether a job's link is neither that of the baseline, if that is known, nor that of the end of the turn before. */
export function isLinkNew(job: AgentJob, known: KnownBefore): boolean {
  return known.baseline.prLink !== undefined && newFields(job, known).includes('prLink');
}

/** Whether a job shows what neither the baseline nor the end of the turn before showed. A missing field says nothing. */
function isNews(job: AgentJob, known: KnownBefore): boolean {
  return newFields(job, known).some((field) => job[field] !== undefined);
}

type KnownBefore = Pick<WatchOrder, 'baseline' | 'lastTurn'>;

/** Fields that are neither as in the baseline nor as at the end of the turn before. */
function newFields(job: AgentJob, { baseline, lastTurn }: KnownBefore): (keyof JobFingerprint)[] {
  const [now, before] = [fingerprint(job), fingerprint(baseline)];
  const fields = ['status', 'prLink', 'archivedAt'] as const;
  return fields.filter((field) => now[field] !== before[field] && now[field] !== lastTurn?.[field]);
}

/** A job without the fields that this project does not know, which may be large. */
export function knownFields({ id, status, source, model, prLink, createdAt, archivedAt }: AgentJob): AgentJob {
  const knownSource = source && defined({ repository: source.repository, ref: source.ref });
  return defined({ id, status, source: knownSource, model, prLink, createdAt, archivedAt });
}

/** What a later comparison needs of a job. `prLink` is never missing, so that an unknown job can be told apart. */
export function comparedFields({ status, prLink, archivedAt }: AgentJob): AgentJob {
  return defined({ status, prLink: prLink ?? null, archivedAt: archivedAt ?? null });
}
