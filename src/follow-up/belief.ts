import { isTerminalStatus, type AgentJob, type JobFingerprint } from '../contract/index.js';
import { isAtWork, isNews } from './job-state.js';

/** Within that time of the send, one more poll confirms a terminal status: replicas may go back in time. */
export const CONFIRM_WITHIN_MS = 10_000;

/** What is known of the job apart from what it shows now. */
export interface TurnContext {
  /** The job as it was before the send. */
  baseline: AgentJob;
  /** How the turn before ended, as the budget remembers it. */
  lastTurn?: JobFingerprint | undefined;
  sentAtMs: number;
  settleTimeMs: number;
}

/**
 * Whether a terminal status is this message's, and not the turn's before it: a get-job showed the agent at work since,
 * or something is new, or the settle time has passed. Where the job was at work already when the message was sent, the
 * first two are satisfied by the earlier turn, and only time counts.
 *
 * @param observedActive whether a get-job since the send showed the agent at work
 */
export function isBelieved(job: AgentJob, context: TurnContext, observedActive: boolean, nowMs: number): boolean {
  if (!isTerminalStatus(job.status)) return false;
  if (nowMs - context.sentAtMs >= context.settleTimeMs) return true;
  if (!isTerminalStatus(context.baseline.status)) return false;
  return observedActive || isNews(job, context.baseline, context.lastTurn);
}

/** Whether a believed terminal status needs one more poll. `seenBefore`: the poll before showed it, too. */
export function needsConfirmation(sentAtMs: number, nowMs: number, seenBefore: boolean): boolean {
  return !seenBefore && nowMs - sentAtMs < CONFIRM_WITHIN_MS;
}

/**
 * Whether a job shows that the message was delivered, though the send's own answer is not known. No evidence with a
 * baseline that was not at rest: what changes then may be the turn that was under way.
 */
export function showsDelivery(job: AgentJob, context: Pick<TurnContext, 'baseline' | 'lastTurn'>): boolean {
  if (!isTerminalStatus(context.baseline.status)) return false;
  return isAtWork(job) || isNews(job, context.baseline, context.lastTurn);
}
