import type { WorkflowExecutionDescription } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import type { FollowUpProgress } from '../contract/index.js';
import type { NothingNewDetails } from '../contract/protocol.js';

/**
 * Adds to what a follow-up knows what its pending `watchJob` activity knows: the workflow hears of looks only when
 * something is new. The latest failure of the activity tells how many looks there were, when the last was, and what was
 * wrong with it; its schedule tells when the next one is.
 */
export function joinPendingWatch(
  progress: FollowUpProgress,
  { raw }: Pick<WorkflowExecutionDescription, 'raw'>,
): FollowUpProgress {
  const watch = pendingWatch({ raw });
  if (!watch) return progress;
  const { looks, lookedAtMs, trouble } = detailsOf(watch.lastFailure?.applicationFailureInfo);
  const nextAtMs = watch.lastStartedTime && toMs(watch.nextAttemptScheduleTime ?? watch.scheduledTime);
  const at = new Date(lookedAtMs ?? 0).toISOString();
  return {
    ...progress,
    polls: progress.polls + looks,
    ...(nextAtMs && progress.state === 'polling' && { nextPollAt: new Date(nextAtMs).toISOString() }),
    ...(lookedAtMs !== null && trouble === null && { jobSeenAt: at }),
    ...(lookedAtMs !== null && trouble !== null && { lastError: { at, message: trouble } }),
  };
}

/** Whether a look of the pending `watchJob` is under way. */
export function isLooking(description: Pick<WorkflowExecutionDescription, 'raw'>): boolean {
  return Number(pendingWatch(description)?.state) === STARTED;
}

/** Of `PendingActivityState` of Temporal's API. */
const STARTED = 2;

function pendingWatch({ raw }: Pick<WorkflowExecutionDescription, 'raw'>) {
  return raw.pendingActivities?.find(({ activityType }) => activityType?.name === 'watchJob');
}

type ApplicationFailureInfo = { details?: { payloads?: Parameters<typeof decode>[0][] | null } | null };

const NO_LOOK: NothingNewDetails = { looks: 0, lookedAtMs: null, trouble: null };

/** What is not this project's own, such as the failure of a worker that died, says nothing of looks. */
function detailsOf(info: ApplicationFailureInfo | null | undefined): NothingNewDetails {
  const [payload] = info?.details?.payloads ?? [];
  try {
    return { ...NO_LOOK, ...(payload && decode(payload)) };
  } catch {
    return NO_LOOK;
  }
}

function decode(payload: Parameters<typeof defaultPayloadConverter.fromPayload>[0]): Partial<NothingNewDetails> {
  return defaultPayloadConverter.fromPayload(payload);
}

type Timestamp = { seconds?: { toNumber(): number } | null; nanos?: number | null } | null | undefined;

function toMs(instant: Timestamp): number {
  return (instant?.seconds?.toNumber() ?? 0) * 1_000 + Math.floor((instant?.nanos ?? 0) / 1e6);
}
