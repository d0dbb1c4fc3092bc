import { iso } from '../contract/durations.js';
import type {
  AgentJob,
  FollowUpFacts,
  FollowUpProgress,
  FollowUpResult,
  FollowUpSettings,
  FollowUpStanding,
} from '../contract/index.js';
import { defined } from '../contract/defined.js';
import { isEndState } from '../contract/follow-up-result.js';
import type { Pause } from '../contract/protocol.js';

/** What a follow-up knows, apart from where it stands. All times are epoch milliseconds. */
export interface Facts {
  position?: number;
  expectedAtMs?: number;
  pause?: Pause;
  /** When it asks again, if it has no place in line. */
  nextTryAtMs?: number;
  sentAtMs?: number;
  delivery?: FollowUpResult['delivery'];
  earlierSendUnknown?: true;
  polls: number;
  waitsUntilMs?: number;
  job?: AgentJob;
  jobSeenAtMs?: number;
  /** The job shows this message's turn. */
  isOwnTurn?: boolean;
  lastError?: { atMs: number; message: string };
}

/** A follow-up as the `progress` query shows it. */
export function progressOf(
  { projectId, jobId }: Pick<FollowUpSettings, 'projectId' | 'jobId'>,
  facts: Facts,
  standing: FollowUpStanding,
  nowMs: number,
): FollowUpProgress {
  const { position, expectedAtMs, pause, sentAtMs, delivery, earlierSendUnknown, polls, waitsUntilMs } = facts;
  const { job, jobSeenAtMs, isOwnTurn, lastError, nextTryAtMs } = facts;
  const isAskingAgain = standing.waitReason === 'queue-full' || standing.waitReason === 'job-busy';
  const isWaiting = standing.state === 'waiting-for-budget';
  return {
    projectId,
    jobId,
    ...standing,
    learnedAt: iso(nowMs),
    ...(isWaiting && position !== undefined && position > 0 && { position }),
    ...(isWaiting && expectedAtMs !== undefined && { expectedSendAt: iso(expectedAtMs) }),
    ...(isAskingAgain && nextTryAtMs !== undefined && { nextTryAt: iso(nextTryAtMs) }),
    ...(sentAtMs !== undefined && { sentAt: iso(sentAtMs) }),
    polls,
    ...(pause && standing.state === 'blocked' && { pause: shownPause(pause) }),
    ...(waitsUntilMs !== undefined && !isEndState(standing.state) && { waitsUntil: iso(waitsUntilMs) }),
    ...(delivery && { delivery }),
    ...(earlierSendUnknown && { earlierSendUnknown }),
    ...(job && jobSeenAtMs !== undefined && { job, jobSeenAt: iso(jobSeenAtMs) }),
    ...(job?.status !== undefined && isOwnTurn && { jobStatus: job.status }),
    ...(job?.prLink && isOwnTurn && { prLink: job.prLink }),
    ...(lastError && { lastError: { at: iso(lastError.atMs), message: lastError.message } }),
  };
}

function shownPause({ by, untilMs, note }: Pause): NonNullable<FollowUpFacts['pause']> {
  return defined({ by, until: untilMs === undefined ? undefined : iso(untilMs), note });
}
