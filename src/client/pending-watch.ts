import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import type { FollowUpProgress } from '../contract/index.js';
import type { NothingNewDetails } from '../contract/protocol.js';
import { decodePayloads, type Payloads } from './history.js';

/**
 * Adds to what a follow-up knows what its pending `watchJob` activity knows: the workflow hears of looks only when
 * something is new. The latest failure of the activity tells how many looks there were, when the last was, and what was
 * wrong with it; its schedule tells when the next one is.
 */
export async function joinPendingWatch(
  client: Client,
  progress: FollowUpProgress,
  { raw, workflowId }: Pick<WorkflowExecutionDescription, 'raw' | 'workflowId'>,
): Promise<FollowUpProgress> {
  const watch = pendingWatch({ raw });
  if (!watch) return progress;
  const details = watch.lastFailure?.applicationFailureInfo?.details?.payloads;
  const { looks, lookedAtMs, trouble } = await decodeDetails(client, workflowId, details);
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

const NO_LOOK: NothingNewDetails = { looks: 0, lookedAtMs: null, trouble: null };

/** The failure of a worker that died has no such details: it says nothing of looks. */
async function decodeDetails(client: Client, workflowId: string, payloads: Payloads): Promise<NothingNewDetails> {
  try {
    const [details] = await decodePayloads(client, workflowId, payloads);
    return { ...NO_LOOK, ...(details as Partial<NothingNewDetails> | undefined) };
  } catch {
    return NO_LOOK;
  }
}

type Timestamp = { seconds?: { toNumber(): number } | null; nanos?: number | null } | null | undefined;

function toMs(instant: Timestamp): number {
  return (instant?.seconds?.toNumber() ?? 0) * 1_000 + Math.floor((instant?.nanos ?? 0) / 1e6);
}
