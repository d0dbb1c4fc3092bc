import { type AgentJob, isTerminalStatus } from '../contract/index.js';
import type { JobFingerprint } from '../contract/protocol.js';
import { hash64 } from '../contract/text.js';

/**
 * If a terminal status appears within this time of the send, one more poll confirms it: replicas of the service may go
 * back in time.
 */
const CONFIRM_WITHIN_MS = 10_000;

/** What is known of a job's turn, besides what the job shows now. */
export interface TurnContext {
  baseline: AgentJob;
  /** How the previous turn ended, as the budget remembers it. */
  lastTurn?: JobFingerprint | undefined;
  sentAtMs: number;
  settleTimeMs: number;
}

/**
 * Whether a terminal status belongs to this message's turn and not to the previous one. It does if a read since the
 * send showed the agent at work, if something is new, or if the settle time has passed. If the job was already at work
 * at the send, the earlier turn explains the first two, and only time counts.
 *
 * @param observedActive whether a read since the send showed the agent at work
 */
export function isBelieved(job: AgentJob, context: TurnContext, observedActive: boolean, nowMs: number): boolean {
  if (!isTerminalStatus(job.status)) return false;
  if (nowMs - context.sentAtMs >= context.settleTimeMs) return true;
  if (!isTerminalStatus(context.baseline.status)) return false;
  return observedActive || isNews(job, context.baseline, context.lastTurn);
}

/**
 * Whether a believed terminal status needs one more poll.
 *
 * @param seenBefore whether the previous poll showed it too
 */
export function needsConfirmation(sentAtMs: number, nowMs: number, seenBefore: boolean): boolean {
  return !seenBefore && nowMs - sentAtMs < CONFIRM_WITHIN_MS;
}

/**
 * Whether a job shows that the message was delivered although the answer to the send is unknown. If the job was not at
 * rest at the baseline, nothing is evidence: any change may belong to the turn that was under way.
 */
export function showsDelivery(job: AgentJob, context: Pick<TurnContext, 'baseline' | 'lastTurn'>): boolean {
  if (!isTerminalStatus(context.baseline.status)) return false;
  return isAtWork(job) || isNews(job, context.baseline, context.lastTurn);
}

/** Longest `archivedAt` that is kept unchanged: an ISO 8601 instant has at most 35 characters. */
const MAX_INSTANT_LENGTH = 40;

/** The part of a job that shows whether a turn has happened. */
export function fingerprint(job: AgentJob): JobFingerprint {
  return {
    status: job.status ?? null,
    prLinkHash: job.prLink ? hash64(job.prLink) : null,
    archivedAt: instant(job.archivedAt),
  };
}

/** The budget refuses long texts, and a service may put any text there. */
function instant(archivedAt: string | null | undefined): string | null {
  if (!archivedAt) return null;
  return archivedAt.length <= MAX_INSTANT_LENGTH ? archivedAt : hash64(archivedAt);
}

/** Whether an agent is at work on the job: its status is `active` or unknown to this project. */
export function isAtWork(job: AgentJob): boolean {
  return job.status !== undefined && !isTerminalStatus(job.status);
}

/**
 * Whether a job shows something that neither the baseline nor the end of the previous turn showed. A lagging baseline
 * may be older than the end of the previous turn, so a difference from only one of the two proves nothing.
 */
export function isNews(job: AgentJob, baseline: AgentJob, lastTurn: JobFingerprint | undefined): boolean {
  const now = fingerprint(job);
  const before = fingerprint(baseline);
  const fields = ['status', 'prLinkHash', 'archivedAt'] as const;
  return fields.some((field) => now[field] !== before[field] && (!lastTurn || now[field] !== lastTurn[field]));
}
