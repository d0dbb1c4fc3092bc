import { type Client, type WorkflowExecutionDescription } from '@temporalio/client';
import { type Timestamp, WorkflowNotFoundError } from '@temporalio/common';
import { defined } from '../common/index.js';
import {
  type BudgetStatus,
  budgetStatusQuery,
  type FollowUpProgress,
  isEndState,
  progressQuery,
  projectBudgetWorkflowId,
  waitingStates,
  type WaitReason,
} from '../contract/index.js';
import type { Observation } from '../follow-up/judge.js';
import { toReason } from '../protocol/index.js';
import { timestampMs } from '../temporal/grpc.js';
import { decodePayloads, failureMessage, type Payloads } from '../temporal/lookups.js';
import { queryWorkflow } from './calls.js';
import { WorkerUnavailableError } from './client-errors.js';
import { callTemporal, toExecutionStatus } from './temporal.js';

const QUERY_TIMEOUT_MS = 5_000;
const BUDGET_TIMEOUT_MS = 3_000;
/** `PendingActivityState` of Temporal's API: no worker runs the activity. */
const SCHEDULED = 1;
/** A replaced activity, until its worker notices, up to a minute later. */
const CANCEL_REQUESTED = 3;

/**
 * Progress with its current place and expected send from its budget, and the next poll from Temporal. Times are ISO
 * 8601 in UTC.
 */
export type LiveProgress = FollowUpProgress & {
  /** Time of `position`, `expectedSendAt` and the reason to wait, if they cannot be confirmed now. */
  asOf?: string;
};

type Waiting = Extract<FollowUpProgress, { state: (typeof waitingStates)[number] }>;
type Activity = NonNullable<WorkflowExecutionDescription['raw']['pendingActivities']>[number];

/**
 * A follow-up's progress, brought up to date: its workflow learns of polls only when something is decided, and of its
 * place only near the front of the line.
 *
 * @throws WorkflowNotFoundError, WorkerUnavailableError, TemporalUnreachableError
 */
export async function readProgress(client: Client, workflowId: string): Promise<LiveProgress> {
  const progress = await queryWorkflow(client, workflowId, QUERY_TIMEOUT_MS, progressQuery);
  return bringUpToDate(client, workflowId, progress, Date.now());
}

/** See {@link readProgress}. */
export async function bringUpToDate(
  client: Client,
  workflowId: string,
  progress: FollowUpProgress,
  nowMs: number,
): Promise<LiveProgress> {
  const { state, projectId } = progress;
  if (state === 'sending' || isEndState(state)) return progress;
  if (state !== 'waiting-for-budget') {
    const { raw } = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
    const pending = (name: string) =>
      raw.pendingActivities?.find(
        ({ activityType, state }) => activityType?.name === name && Number(state) !== CANCEL_REQUESTED,
      );
    const [watch, ask] = [pending('watchJob'), pending('askForSlot')];
    if (watch) return joinWatch(client, workflowId, progress, watch, nowMs);
    if (ask) return state === 'blocked' ? joinAsk(client, workflowId, progress, ask) : progress;
  }
  if (!isWaiting(progress)) return progress;
  return withBudget(await askBudget(client, projectId, workflowId), workflowId, progress);
}

function isWaiting(progress: FollowUpProgress): progress is Waiting {
  return waitingStates.some((state) => state === progress.state);
}

async function joinWatch(
  client: Client,
  workflowId: string,
  progress: FollowUpProgress,
  activity: Activity,
  nowMs: number,
) {
  const { state, polls } = progress;
  const { heartbeatDetails, lastHeartbeatTime } = activity;
  const observation = await decode<Partial<Observation>>(client, workflowId, activity, heartbeatDetails?.payloads);
  const { job, observedActive, lastError: message } = observation;
  const reportedAt = iso(lastHeartbeatTime);
  const isSent = state === 'polling' || state === 'reconciling';
  const nextAts = [observation.nextPollAt, dueAt(activity)].filter((at) => at !== undefined && Date.parse(at) > nowMs);
  return {
    ...progress,
    polls: isSent ? polls + (observation.polls ?? 0) : polls,
    ...defined({
      job,
      jobSeenAt: job && message === undefined ? reportedAt : undefined,
      nextPollAt: nextAts.sort().at(-1),
      lastError: message !== undefined && reportedAt !== undefined ? { at: reportedAt, message } : undefined,
    }),
    ...(state === 'polling' && observedActive && defined({ jobStatus: job?.status })),
  };
}

/** Adds the reason and the time of a repeated ask for a slot. */
async function joinAsk(client: Client, workflowId: string, progress: Waiting, activity: Activity) {
  const { lastFailure, lastAttemptCompleteTime, lastStartedTime, scheduledTime } = activity;
  const message = await failureMessage(client, workflowId, lastFailure, activity.activityId ?? undefined);
  const at = iso(lastAttemptCompleteTime ?? lastStartedTime ?? scheduledTime);
  return {
    ...progress,
    waitReason: toReason(lastFailure?.applicationFailureInfo?.type ?? '') ?? progress.waitReason,
    ...defined({ nextTryAt: dueAt(activity), lastError: message && at ? { at, message } : undefined }),
  };
}

/** When a worker should start a pending activity. */
function dueAt({ state, nextAttemptScheduleTime, scheduledTime }: Activity): string | undefined {
  return Number(state) === SCHEDULED ? iso(nextAttemptScheduleTime ?? scheduledTime) : undefined;
}

/** Empty if there is nothing, or this client cannot decode it. */
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

/** The status of a budget with a follow-up's place; `stopped`; or `undefined` if it does not answer. */
async function askBudget(
  client: Client,
  projectId: string,
  about: string,
): Promise<BudgetStatus | 'stopped' | undefined> {
  const workflowId = projectBudgetWorkflowId(projectId);
  try {
    // A closed one would also answer.
    const { status } = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
    if (toExecutionStatus(status.name) !== 'running') return 'stopped';
    return await queryWorkflow(client, workflowId, BUDGET_TIMEOUT_MS, budgetStatusQuery, Date.now(), about);
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || error instanceof WorkerUnavailableError) return undefined;
    throw error;
  }
}

/** Combines a waiting follow-up's progress with its budget's status. */
export function withBudget(
  budget: BudgetStatus | 'stopped' | undefined,
  workflowId: string,
  progress: Waiting,
): LiveProgress {
  const { position: _position, expectedSendAt: _expected, pause: _pause, nextTryAt: _nextTryAt, ...rest } = progress;
  if (budget === 'stopped') return { ...rest, state: 'blocked', waitReason: 'budget-stopped' };
  const waiter = budget?.waiting.find((each) => each.workflowId === workflowId);
  if (!budget || !waiter) return { ...progress, asOf: progress.learnedAt };
  const { position, expectedAt, refusal } = waiter;
  const facts = { ...rest, ...defined({ position, expectedSendAt: expectedAt }) };
  const waitReason = projectReason(budget);
  if (waitReason !== undefined) {
    const { until, statusCode, note } = budget.paused ?? {};
    const by = waitReason === 'paused' ? 'operator' : 'service';
    const pause = { by, ...defined({ until, statusCode, note }) } as const;
    return { ...facts, state: 'blocked', waitReason, ...(waitReason !== 'counting' && { pause }) };
  }
  if (refusal) {
    const { reason, ...more } = refusal;
    return { ...facts, state: 'blocked', waitReason: reason, pause: { by: 'message', ...more } };
  }
  if (position === undefined) return { ...facts, state: 'waiting-for-job', waitReason: 'job-busy' };
  return { ...facts, state: 'waiting-for-budget', waitReason: 'slot' };
}

/** Why a project sends nothing; `undefined` if each of its follow-ups has its own reason to wait. */
function projectReason({ isCounting, paused }: BudgetStatus): WaitReason | undefined {
  if (isCounting) return 'counting';
  const [reason] = paused?.reasons ?? [];
  return reason === 'operator' ? 'paused' : reason;
}
