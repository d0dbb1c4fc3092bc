import { hash64 } from '../contract/hash.js';
import { isTerminalStatus, type AgentJob, type JobFingerprint } from '../contract/index.js';

/** Longest `archivedAt` that is kept as it stands: an instant in ISO 8601 has at most 35 characters. */
const MAX_INSTANT_LENGTH = 40;

/** The part of a job that shows whether a turn has happened. */
export function fingerprint(job: AgentJob): JobFingerprint {
  return {
    status: job.status ?? null,
    prLinkHash: job.prLink ? hash64(job.prLink) : null,
    archivedAt: instant(job.archivedAt),
  };
}

/** The budget keeps it, and refuses what is no message of a follow-up: a service may put any text there. */
function instant(archivedAt: string | null | undefined): string | null {
  if (!archivedAt) return null;
  return archivedAt.length <= MAX_INSTANT_LENGTH ? archivedAt : hash64(archivedAt);
}

/** Whether an agent is at work on the job: its status is `active`, or one that the service added later. */
export function isAtWork(job: AgentJob): boolean {
  return job.status !== undefined && !isTerminalStatus(job.status);
}

/**
 * Whether a job shows something that neither the baseline nor the end of the turn before it showed. A lagging baseline
 * may be older than the end of the turn before, so a difference from one of the two proves nothing.
 */
export function isNews(job: AgentJob, baseline: AgentJob, lastTurn: JobFingerprint | undefined): boolean {
  const now = fingerprint(job);
  const before = fingerprint(baseline);
  const fields = ['status', 'prLinkHash', 'archivedAt'] as const;
  return fields.some((field) => now[field] !== before[field] && (!lastTurn || now[field] !== lastTurn[field]));
}
