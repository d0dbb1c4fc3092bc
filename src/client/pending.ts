import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import type { Timestamp } from '@temporalio/common';
import { z } from 'zod';
import type { BlockReason, WaitReason } from '../contract/budget-messages.js';
import { defined } from '../contract/defined.js';
import type { AgentJob } from '../contract/index.js';
import { knownReason } from '../contract/protocol.js';
import type { Seen } from '../follow-up/watch.js';
import { decodePayloads, type Payloads } from '../temporal/run-start.js';
import { timestampMs } from './temporal-call.js';
import { readTrouble, reasonOf } from './trouble.js';

/** How long after its instant something is overdue: clocks differ, and Temporal's lists lag behind. */
const OVERDUE_AFTER_MS = 5_000;
/** `PENDING_ACTIVITY_STATE_SCHEDULED` of Temporal's API: no worker is at it. */
const SCHEDULED = 1;
/** `PENDING_ACTIVITY_STATE_CANCEL_REQUESTED`: one that was replaced, until its worker hears of it, up to a minute later. */
const CANCEL_REQUESTED = 3;

/** What a follow-up's activities do now, as Temporal knows it. Needs no worker. */
export interface Pending {
  watch?: PendingWatch;
  ask?: PendingAsk;
}

/** What the watch of a job knows, as of its last heartbeat. Instants are ISO 8601 in UTC. */
export interface PendingWatch {
  /** When it last reported. Missing before its first report. */
  reportedAt?: string;
  /** Polls of this watch. */
  polls: number;
  /** Instant of the next poll. Missing while it polls, and until the next report once it has passed. */
  nextPollAt?: string;
  /** The last job that was read. */
  job?: AgentJob;
  /** Whether the job was seen at work on this follow-up's message. */
  observedActive: boolean;
  /** What was wrong with the last poll. */
  lastError?: { at: string; message: string };
  /** Set if no worker takes the watch: why. */
  overdue?: string;
}

/** An ask for a slot that is repeated because its budget or its job cannot be reached. */
export interface PendingAsk {
  /** Of the last try. */
  reason?: WaitReason | BlockReason;
  /** Of the last try. */
  lastError?: { at: string; message: string };
  /** Missing while it tries. */
  nextTryAt?: string;
  /** Set if no worker takes the next try: why. */
  overdue?: string;
}

type Description = Pick<WorkflowExecutionDescription, 'raw' | 'workflowId'>;
type Activity = NonNullable<Description['raw']['pendingActivities']>[number];

/**
 * What the pending activities of a follow-up know. Its workflow hears of polls only when something is decided, and of
 * asks only when there is an answer.
 *
 * @throws TemporalUnreachableError
 */
export async function readPending(client: Client, { raw, workflowId }: Description, nowMs: number): Promise<Pending> {
  const named = (name: string) =>
    raw.pendingActivities?.find(
      ({ activityType, state }) => activityType?.name === name && Number(state) !== CANCEL_REQUESTED,
    );
  const [watch, ask] = [named('watchJob'), named('askForSlot')];
  return {
    ...(watch && { watch: await readWatch(client, workflowId, watch, nowMs) }),
    ...(ask && { ask: await readAsk(client, workflowId, ask, nowMs) }),
  };
}

async function readWatch(client: Client, workflowId: string, activity: Activity, nowMs: number): Promise<PendingWatch> {
  const { heartbeatDetails, lastHeartbeatTime } = activity;
  const seen = await decode<Partial<Seen>>(client, workflowId, activity, heartbeatDetails?.payloads);
  const { polls = 0, observedActive = false, nextPollAt, job, lastError: message } = seen;
  const reportedAt = iso(lastHeartbeatTime);
  const nextAts = [nextPollAt, dueAt(activity)].filter((at) => at !== undefined && Date.parse(at) > nowMs);
  return {
    polls,
    observedActive,
    ...defined({ reportedAt, nextPollAt: nextAts.sort().at(-1), job }),
    ...(message !== undefined && reportedAt !== undefined && { lastError: { at: reportedAt, message } }),
    ...defined({ overdue: await whyUntaken(client, workflowId, activity, nowMs) }),
  };
}

async function readAsk(client: Client, workflowId: string, activity: Activity, nowMs: number): Promise<PendingAsk> {
  const { lastFailure, lastAttemptCompleteTime, lastStartedTime, scheduledTime } = activity;
  const reason = knownReason(lastFailure?.applicationFailureInfo?.type ?? '');
  // A failure converter may keep the message from the server.
  const { encodedAttributes } = lastFailure ?? {};
  const hidden = await decode<unknown>(client, workflowId, activity, encodedAttributes && [encodedAttributes]);
  const message = z.looseObject({ message: z.string() }).safeParse(hidden).data?.message ?? lastFailure?.message;
  const at = iso(lastAttemptCompleteTime ?? lastStartedTime ?? scheduledTime);
  const overdue = await whyUntaken(client, workflowId, activity, nowMs);
  return {
    ...(message && at !== undefined && { lastError: { at, message } }),
    ...defined({ reason, nextTryAt: dueAt(activity), overdue }),
  };
}

/** When a worker is to take an activity that none is at. */
function dueAt({ state, nextAttemptScheduleTime, scheduledTime }: Activity): string | undefined {
  return Number(state) === SCHEDULED ? iso(nextAttemptScheduleTime ?? scheduledTime) : undefined;
}

async function whyUntaken(
  client: Client,
  workflowId: string,
  activity: Activity,
  nowMs: number,
): Promise<string | undefined> {
  if (!isOverdue(dueAt(activity), nowMs)) return undefined;
  const trouble = await readTrouble(client, workflowId);
  return trouble ? reasonOf(trouble) : 'no worker has taken it yet';
}

/** Whether an expected instant has passed by more than clocks differ. */
export function isOverdue(instant: string | undefined, nowMs: number): boolean {
  return instant !== undefined && Date.parse(instant) + OVERDUE_AFTER_MS < nowMs;
}

/** Empty if there is nothing, and if this client cannot decode it. */
async function decode<T>(client: Client, workflowId: string, { activityId }: Activity, payloads: Payloads) {
  try {
    const [value = {}] = await decodePayloads(client, workflowId, payloads, activityId ?? undefined);
    return value as T;
  } catch {
    return {} as T;
  }
}

function iso(timestamp: Timestamp | null | undefined): string | undefined {
  return timestamp ? new Date(timestampMs(timestamp)).toISOString() : undefined;
}
