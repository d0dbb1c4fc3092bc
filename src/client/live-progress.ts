import type { Client, WorkflowExecutionDescription } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { defined } from '../contract/defined.js';
import {
  type BudgetStatus,
  budgetStatusQuery,
  type BudgetWaiter,
  type FollowUpProgress,
  isEndState,
  projectBudgetWorkflowId,
} from '../contract/index.js';
import type { NothingNewDetails } from '../contract/protocol.js';
import { WorkerUnavailableError } from './errors.js';
import { decodePayloads, type Payloads } from './history.js';
import type { FollowUpSummary } from './summary.js';
import { callTemporal, fewAtATime, timestampMs } from './temporal-call.js';
import { queryWorkflow, readTrouble, reasonOf } from './trouble.js';

/** How long after its instant something is overdue: clocks differ, and Temporal's lists lag behind. */
const OVERDUE_AFTER_MS = 5_000;
/** A look after a timer is not visible while it is under way. */
const LOOK_LASTS_MS = 10_000;
/** How long a budget may take to answer. */
export const BUDGET_TIMEOUT_MS = 3_000;
const NOT_POLLED = 'no worker has picked up the poll yet';
/** How many follow-ups of a list show their next poll. */
const MOST_WATCHES = 100;
const NOT_COME = 'its budget has woken it, but no worker has picked that up yet';

/**
 * Progress with what others know by now: its place in the queue and the expected send from its budget, and the next
 * look from Temporal. Instants are ISO 8601 in UTC.
 */
export type LiveProgress = FollowUpProgress & {
  /** If `position`, `expectedSendAt` and `nextPollAt` cannot be confirmed now: the instant they are from. */
  asOf?: string;
  /** Set if an expected instant has passed: why, and what to do if something can be done. */
  overdue?: string;
};

/** A place in the queue of a project's budget, as the budget has it now. */
export interface BudgetPlace {
  /** 1 for the next; missing while its job is busy. */
  position?: number;
  /** Expected instant of the send. */
  expectedAt?: string;
  /** Why the budget does not answer. */
  unavailable?: string;
  /** Set if it has not taken its slot for some seconds: why. */
  overdue?: string;
}

/** What the watch of a job under way knows. Instants are ISO 8601 in UTC. */
export interface PendingWatch {
  /** Polls since the job last changed. */
  polls: number;
  /** Instant of the next poll. */
  nextPollAt?: string;
  /** When the job was last read, if the last poll succeeded. */
  jobSeenAt?: string;
  /** What was wrong with the last poll. */
  lastError?: { at: string; message: string };
  /** Set if the next poll is overdue: why. */
  overdue?: string;
}

/** A budget's status, or why it does not answer. */
type BudgetAnswer = { status: BudgetStatus; silence?: never } | { status?: never; silence: string };

/**
 * Brings a follow-up's own progress up to date.
 *
 * @throws WorkflowNotFoundError, TemporalUnreachableError
 */
export async function bringUpToDate(
  client: Client,
  workflowId: string,
  progress: FollowUpProgress,
  nowMs = Date.now(),
): Promise<LiveProgress> {
  if (isEndState(progress.state)) return progress;
  if (progress.state === 'waiting-for-budget') {
    const answer = await askBudget(client, progress.projectId, workflowId);
    const place = answer.status?.waiting.find((waiter) => waiter.workflowId === workflowId);
    const live = placeIn(answer, place, progress, nowMs);
    if (live.overdue !== undefined || !isOverdue(place?.calledAt, nowMs)) return live;
    return { ...live, overdue: await reasonOfDelay(client, workflowId, NOT_COME) };
  }
  if (progress.nextPollAt === undefined && progress.sentAt === undefined) return progress;
  const description = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
  const live = await joinPendingWatch(client, progress, description);
  const lateMs = live === progress ? OVERDUE_AFTER_MS + LOOK_LASTS_MS : OVERDUE_AFTER_MS;
  if (isLooking(description) || !isOverdue(live.nextPollAt ?? live.nextTryAt, nowMs, lateMs)) return live;
  return { ...live, overdue: await reasonOfDelay(client, workflowId, NOT_POLLED) };
}

async function reasonOfDelay(client: Client, workflowId: string, otherwise: string): Promise<string> {
  const trouble = await readTrouble(client, workflowId);
  return trouble ? reasonOf(trouble) : otherwise;
}

/** Progress of a follow-up that waits for its slot, with its budget's answer. */
export function placeIn(
  { status, silence }: BudgetAnswer,
  place: BudgetWaiter | undefined,
  progress: Extract<FollowUpProgress, { waitReason: string }>,
  nowMs: number,
): LiveProgress {
  const isLate = isOverdue(progress.expectedSendAt, nowMs);
  const asItWas = (reason: string): LiveProgress => ({
    ...progress,
    asOf: progress.learnedAt,
    ...(isLate && { overdue: reason }),
  });
  if (silence !== undefined) return asItWas(`the budget does not answer: ${silence}`);
  if (!place) return asItWas('the budget does not have it in its queue; it asks again on its own');
  const { position: _position, expectedSendAt: _expectedSendAt, ...rest } = progress;
  if (status.paused) {
    // It hears of the pause at its next request.
    const { reasons, until, note } = status.paused;
    if (reasons.every((reason) => reason === 'credentials')) {
      return { ...rest, state: 'blocked', waitReason: 'credentials' };
    }
    const by = reasons.includes('operator') ? 'operator' : 'service';
    const pause = { by, ...defined({ until, note }) } as const;
    return { ...rest, state: 'blocked', waitReason: 'paused', pause };
  }
  return {
    ...rest,
    ...defined({ position: place.position, expectedSendAt: place.expectedAt }),
  };
}

/** The places of follow-ups that wait for their slots, by their workflow ids. */
export async function readPlaces(
  budgets: BudgetAnswers,
  summaries: readonly FollowUpSummary[],
  nowMs = Date.now(),
): Promise<ReadonlyMap<string, BudgetPlace>> {
  const waiting = summaries.filter(({ status, state }) => status === 'running' && state === 'waiting-for-budget');
  const projects = [...new Set(waiting.map(({ projectId }) => projectId))];
  const answers = new Map(
    await fewAtATime(projects, async (projectId) => [projectId, await budgets.of(projectId)] as const),
  );
  const places = new Map<string, BudgetPlace>();
  for (const { workflowId, projectId } of waiting) {
    const { status, silence } = answers.get(projectId) ?? {};
    if (silence !== undefined) places.set(workflowId, { unavailable: silence });
    const waiter = status?.waiting.find((each) => each.workflowId === workflowId);
    if (!waiter) continue;
    const { position, expectedAt, calledAt } = waiter;
    places.set(workflowId, {
      ...defined({ position, expectedAt }),
      ...(isOverdue(calledAt, nowMs) && { overdue: NOT_COME }),
    });
  }
  return places;
}

/**
 * What a project's budget says.
 *
 * @param about workflow id of a follow-up whose place must be in the answer
 * @throws TemporalUnreachableError
 */
async function askBudget(client: Client, projectId: string, about?: string): Promise<BudgetAnswer> {
  const workflowId = projectBudgetWorkflowId(projectId);
  try {
    return {
      status: await queryWorkflow(client, workflowId, BUDGET_TIMEOUT_MS, budgetStatusQuery, Date.now(), about),
    };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return { silence: 'it does not exist any more' };
    if (error instanceof WorkerUnavailableError) return { silence: error.reason };
    throw error;
  }
}

/** Asks the budgets of projects, each once. */
export class BudgetAnswers {
  readonly #client: Client;
  readonly #answers = new Map<string, Promise<BudgetAnswer>>();

  constructor(client: Client) {
    this.#client = client;
  }

  /** @throws TemporalUnreachableError */
  of(projectId: string): Promise<BudgetAnswer> {
    const answer = this.#answers.get(projectId) ?? askBudget(this.#client, projectId);
    this.#answers.set(projectId, answer);
    return answer;
  }
}

/** Whether an expected instant has passed by more than clocks differ. */
export function isOverdue(instant: string | undefined, nowMs: number, byMs = OVERDUE_AFTER_MS): boolean {
  return instant !== undefined && Date.parse(instant) + byMs < nowMs;
}

/** Adds what its pending `watchJob` knows to a follow-up's progress. */
async function joinPendingWatch(
  client: Client,
  progress: FollowUpProgress,
  description: Pick<WorkflowExecutionDescription, 'raw' | 'workflowId'>,
): Promise<FollowUpProgress> {
  const watch = await readPendingWatch(client, description);
  if (!watch) return progress;
  const { polls, nextPollAt, ...seen } = watch;
  return {
    ...progress,
    polls: progress.polls + polls,
    ...(progress.state === 'polling' && defined({ nextPollAt })),
    ...(progress.state === 'blocked' && defined({ nextTryAt: nextPollAt })),
    ...seen,
  };
}

/**
 * What a pending `watchJob` activity knows: the workflow hears of polls only when something is new. The activity's
 * latest failure tells how many polls there were, when the last one was, and what was wrong with it; its schedule tells
 * when the next one is. `undefined` if none is pending.
 */
async function readPendingWatch(
  client: Client,
  { raw, workflowId }: Pick<WorkflowExecutionDescription, 'raw' | 'workflowId'>,
): Promise<PendingWatch | undefined> {
  const watch = pendingWatch({ raw });
  if (!watch) return undefined;
  const details = watch.lastFailure?.applicationFailureInfo?.details?.payloads;
  const { looks, lookedAtMs, trouble } = await decodeDetails(client, workflowId, details);
  // Before its first attempt, only the follow-up knows when it looks. `lastStartedTime` is empty between attempts.
  const isKnown = Number(watch.attempt) > 1 || Number(watch.state) === STARTED;
  const next = isKnown && (watch.nextAttemptScheduleTime ?? watch.scheduledTime);
  const at = new Date(lookedAtMs ?? 0).toISOString();
  return {
    polls: looks,
    ...(next && { nextPollAt: new Date(timestampMs(next)).toISOString() }),
    ...(lookedAtMs !== null && trouble === null && { jobSeenAt: at }),
    ...(lookedAtMs !== null && trouble !== null && { lastError: { at, message: trouble } }),
  };
}

/**
 * What the pending watches of the newest follow-ups that poll their jobs know, by workflow id. Each takes a call of
 * Temporal, but no worker. A call that fails leaves its follow-up out.
 */
export async function readWatches(
  client: Client,
  newestFirst: readonly FollowUpSummary[],
): Promise<ReadonlyMap<string, PendingWatch>> {
  const running = (wanted: string) =>
    newestFirst.filter(({ status, state }) => status === 'running' && state === wanted);
  // A follow-up that cannot read its job shows as blocked while it watches it. Most that are blocked have no watch.
  const mayWatch = [...running('polling'), ...running('blocked')];
  const watches = new Map<string, PendingWatch>();
  await fewAtATime(mayWatch.slice(0, MOST_WATCHES), async ({ workflowId }) => {
    try {
      const description = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
      const watch = await readPendingWatch(client, description);
      const isLate = !isLooking(description) && isOverdue(watch?.nextPollAt, Date.now());
      if (watch) watches.set(workflowId, { ...watch, ...(isLate && { overdue: NOT_POLLED }) });
    } catch {
      // The list itself is complete without this.
    }
  });
  return watches;
}

/** Whether a look of the pending `watchJob` is under way. */
function isLooking(description: Pick<WorkflowExecutionDescription, 'raw'>): boolean {
  return Number(pendingWatch(description)?.state) === STARTED;
}

/** Of `PendingActivityState` of Temporal's API. */
const STARTED = 2;

function pendingWatch({ raw }: Pick<WorkflowExecutionDescription, 'raw'>) {
  return raw.pendingActivities?.find(({ activityType }) => activityType?.name === 'watchJob');
}

const NO_LOOK: NothingNewDetails = { looks: 0, lookedAtMs: null, trouble: null };

/** Other failures, such as that of a worker that died, have no such details and say nothing about looks. */
async function decodeDetails(client: Client, workflowId: string, payloads: Payloads): Promise<NothingNewDetails> {
  try {
    const [details] = await decodePayloads(client, workflowId, payloads);
    return { ...NO_LOOK, ...(details as Partial<NothingNewDetails> | undefined) };
  } catch {
    return NO_LOOK;
  }
}
