import { z } from 'zod';
import { defined, iso } from '../common/index.js';
import {
  type AgentJob,
  agentJobSchema,
  type FollowUpSettings,
  isTerminalStatus,
  terminalStatuses,
} from '../contract/index.js';
import { fingerprint, isAtWork, type JobFingerprint } from '../protocol/index.js';

/** For this long after a read or a send, a replica that lags may still show the job as it was before. */
const STALE_MS = 10_000;
/** A job counts as not found or unreadable after this many consecutive failed polls over at least these times. */
const LASTING_POLLS = 3;
export const NOT_FOUND_MS = 30_000;
const UNREADABLE_MS = 30_000;
/** Each period of trouble must last twice as long as the previous one to be reported, up to about an hour. */
const MAX_DOUBLINGS = 7;

export type Read =
  | { kind: 'job'; job: AgentJob }
  | { kind: 'notFound'; message: string }
  | { kind: 'failed'; reason: string; message: string; retryAfterMs?: number };

/**
 * Goal of a watch. `rest`: the job accepts messages. `evidence`: the job shows that a message was delivered. `end`: the
 * message's turn ends.
 */
type WatchGoal = 'rest' | 'evidence' | 'end';

/** How the job was before the message. It distinguishes the message's turn from the previous one. */
export interface Baseline {
  /** The job just before the send; empty if it is not known. */
  job: AgentJob;
  /** The job was read before this time. */
  readByMs: number;
  /** The job at the end of its previous turn. `job` may be older. */
  previousEnd?: JobFingerprint;
}

export interface WatchRequest {
  projectId: string;
  jobId: string;
  until: WatchGoal;
  poll: FollowUpSettings['poll'];
  settleTimeMs: number;
  prLinkGraceMs: number;
  deadlineMs: number;
  /** The reported reason why the job cannot be read. */
  trouble: string | null;
  baseline: Baseline;
  /** Latest time at which the message may have arrived. */
  arrivedByMs: number;
  /** The run that watches. Another run, after a reset, has to ask the budget first. */
  runId: string;
  /** What earlier watches with this goal have seen. */
  observation?: Observation;
}

const observationSchema = z.object({
  /** Number of reads, including failed ones. */
  polls: z.number(),
  /** Time of the next read, ISO 8601 in UTC. */
  nextPollAt: z.iso.datetime(),
  lastError: z.string().exactOptional(),
  /** The job as last read, only with the fields that this project knows. */
  job: agentJobSchema.exactOptional(),
  /** Whether the job was seen at work on this message. */
  observedActive: z.boolean(),
  /** When the job was last seen at work on any message. */
  atWorkAtMs: z.number().exactOptional(),
  intervalMs: z.number(),
  /** When a terminal status was first believed. */
  endSeenAtMs: z.number().exactOptional(),
  /** Consecutive failed reads of one kind, and the time of the first. */
  failing: z.object({ kind: z.enum(['notFound', 'failed']), polls: z.number(), sinceMs: z.number() }).exactOptional(),
  troubles: z.number().exactOptional(),
});
/** What a watch has seen. The activity keeps it in its heartbeat, which people and programs can read. */
export type Observation = z.infer<typeof observationSchema>;

const watchEndSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['rest', 'evidence']), job: agentJobSchema }),
  z.object({ kind: z.literal('ended'), job: agentJobSchema.extend({ status: z.enum(terminalStatuses) }) }),
  z.object({ kind: z.literal('notFound'), message: z.string() }),
  z.object({ kind: z.enum(['deadline', 'foreign']) }),
  /** The job is unreadable for a while, or (`null`) readable again. */
  z.object({ kind: z.literal('trouble'), trouble: z.string().nullable() }),
]);
export type WatchEnd = z.infer<typeof watchEndSchema>;
const watchResultSchema = z.intersection(watchEndSchema, z.object({ observation: observationSchema }));
export type WatchResult = z.infer<typeof watchResultSchema>;

/** Reads the result of a watch; `undefined` if an operator entered an invalid one. */
export function readWatchResult(result: unknown): WatchResult | undefined {
  return watchResultSchema.safeParse(result).success ? (result as WatchResult) : undefined;
}

/** The initial state. A watch for an end reads the job after one interval, any other at once. */
export function firstObservation(
  { until, poll, deadlineMs }: Pick<WatchRequest, 'until' | 'poll' | 'deadlineMs'>,
  nowMs: number,
): Observation {
  const firstAtMs = until === 'end' ? Math.min(nowMs + poll.initialIntervalMs, Math.max(nowMs, deadlineMs)) : nowMs;
  const nextPollAt = iso(firstAtMs);
  return { polls: 0, nextPollAt, observedActive: false, intervalMs: poll.initialIntervalMs };
}

/**
 * Prepares an observation for the next attempt of the activity. If the attempt starts later than planned, its times move
 * forward by the delay: time without reads confirms nothing.
 */
export function resumeObservation(observation: Observation, scheduledAtMs: number): void {
  const lateMs = Math.max(0, scheduledAtMs - Date.parse(observation.nextPollAt));
  if (observation.atWorkAtMs !== undefined) observation.atWorkAtMs += lateMs;
  if (observation.endSeenAtMs !== undefined) observation.endSeenAtMs += lateMs;
  if (observation.failing) observation.failing.sinceMs += lateMs;
}

/** Adds a read to the observation. Returns the end of the watch, if this read ends it. */
export function judge(
  request: WatchRequest,
  observation: Observation,
  read: Read,
  nowMs: number,
): WatchEnd | undefined {
  observation.polls += 1;
  observation.intervalMs = Math.min(
    request.poll.maxIntervalMs,
    observation.intervalMs * request.poll.backoffCoefficient,
  );
  if (read.kind === 'job') {
    delete observation.lastError;
    delete observation.failing;
    observation.job = knownFields(read.job);
    const end = judgeJob(request, observation, read.job, nowMs);
    if (end) return end;
  } else {
    observation.lastError = read.message;
    const { failing } = observation;
    if (failing?.kind === read.kind) failing.polls += 1;
    else observation.failing = { kind: read.kind, polls: 1, sinceMs: nowMs };
  }
  if (read.kind === 'notFound' && request.until !== 'evidence' && hasLasted(observation, NOT_FOUND_MS, nowMs)) {
    return { kind: 'notFound', message: read.message };
  }
  if (nowMs >= request.deadlineMs) return { kind: 'deadline' };
  // Only the start and the end of trouble are reported, because kinds of trouble may alternate.
  if (read.kind === 'job') return request.trouble === null ? undefined : { kind: 'trouble', trouble: null };
  const { troubles = 0 } = observation;
  const lastingMs = UNREADABLE_MS * 2 ** Math.min(MAX_DOUBLINGS, troubles);
  if (read.kind === 'notFound' || request.trouble !== null || !hasLasted(observation, lastingMs, nowMs))
    return undefined;
  observation.troubles = troubles + 1;
  return { kind: 'trouble', trouble: read.reason };
}

function hasLasted({ failing }: Observation, ms: number, nowMs: number): boolean {
  return failing !== undefined && failing.polls >= LASTING_POLLS && nowMs - failing.sinceMs >= ms;
}

function judgeJob(request: WatchRequest, observation: Observation, job: AgentJob, nowMs: number): WatchEnd | undefined {
  switch (request.until) {
    case 'rest':
      return isAtWork(job) ? undefined : { kind: 'rest', job: knownFields(job) };
    case 'evidence':
      return isEvidence(request, job, nowMs) ? { kind: 'evidence', job: knownFields(job) } : undefined;
    case 'end':
      return judgeEnd(request, observation, job, nowMs);
  }
}

/**
 * Whether the job is known to have been at rest before the send. Otherwise its state may belong to an earlier turn, so only
 * time counts.
 */
function wasAtRest({ job }: Baseline): boolean {
  return isTerminalStatus(job.status);
}

/** Even if the job before the send showed the end of the previous turn, a replica that lags may still show that turn. */
function isFresh({ baseline, settleTimeMs }: WatchRequest, nowMs: number): boolean {
  return nowMs - baseline.readByMs >= Math.min(STALE_MS, settleTimeMs);
}

/** Whether a job shows that the message was delivered. Anyone may archive a job. */
function isEvidence(request: WatchRequest, job: AgentJob, nowMs: number): boolean {
  const { baseline } = request;
  return job.status !== 'archived' && hasChanged(job, baseline) && wasAtRest(baseline) && isFresh(request, nowMs);
}

/** Ends the watch if the job shows the end of the message's turn, and not that of the previous one. */
function judgeEnd(request: WatchRequest, observation: Observation, job: AgentJob, nowMs: number): WatchEnd | undefined {
  const { baseline, arrivedByMs, settleTimeMs, prLinkGraceMs, deadlineMs } = request;
  if (isAtWork(job)) observation.atWorkAtMs = nowMs;
  observation.observedActive ||= isAtWork(job) && isFresh(request, nowMs);
  const isSettled = nowMs - arrivedByMs >= settleTimeMs;
  const isNew = hasChanged(job, baseline);
  const isBelieved = isSettled || (wasAtRest(baseline) && (observation.observedActive || isNew));
  if (!isTerminalStatus(job.status) || !isBelieved) {
    delete observation.endSeenAtMs;
    return undefined;
  }
  observation.endSeenAtMs ??= nowMs;
  // What looks like the end of the previous turn may be that end: a replica may lag, or this turn has not begun yet.
  const { atWorkAtMs = 0, endSeenAtMs } = observation;
  const sinceMs = !wasAtRest(baseline) ? endSeenAtMs : isNew ? arrivedByMs : atWorkAtMs;
  const isConfirmed = nowMs - Math.max(arrivedByMs, sinceMs) >= Math.min(STALE_MS, settleTimeMs);
  // A job may complete some seconds before its pull request appears.
  const hasOwnLink = Boolean(job.prLink) && isLinkNew(job, baseline);
  const isGraceOver = nowMs - observation.endSeenAtMs >= prLinkGraceMs || nowMs >= deadlineMs;
  const isComplete = job.status !== 'completed' || hasOwnLink || isGraceOver;
  return isConfirmed && isComplete ? { kind: 'ended', job: { ...job, status: job.status } } : undefined;
}

/** Whether a job's link differs from the one before the send and that of the previous turn. */
export function isLinkNew(job: AgentJob, baseline: Baseline): boolean {
  return baseline.job.prLink !== undefined && newFields(job, baseline).includes('prLink');
}

/**
 * Whether a job differs from both how it was before the send and the end of the previous turn. A missing field is no
 * difference.
 */
function hasChanged(job: AgentJob, baseline: Baseline): boolean {
  return newFields(job, baseline).some((field) => job[field] !== undefined);
}

/** Fields that differ from both the job before the send and the end of the previous turn. */
function newFields(job: AgentJob, { job: jobBefore, previousEnd }: Baseline): (keyof JobFingerprint)[] {
  const [now, before] = [fingerprint(job), fingerprint(jobBefore)];
  const fields = ['status', 'prLink', 'archivedAt'] as const;
  return fields.filter((field) => now[field] !== before[field] && now[field] !== previousEnd?.[field]);
}

/** A job with only the fields that this project knows; the others may be large. */
export function knownFields({ id, status, source, model, prLink, createdAt, archivedAt }: AgentJob): AgentJob {
  const knownSource = source && defined({ repository: source.repository, ref: source.ref });
  return defined({ id, status, source: knownSource, model, prLink, createdAt, archivedAt });
}

/**
 * The fields of a job for later comparisons. `prLink` is always present, which distinguishes the result from an unknown
 * job.
 */
export function comparedFields({ status, prLink, archivedAt }: AgentJob): AgentJob {
  return defined({ status, prLink: prLink ?? null, archivedAt: archivedAt ?? null });
}
