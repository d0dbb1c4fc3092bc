import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import type { BlockReason, WaitReason } from '../contract/budget-messages.js';
import { waitingStates } from '../contract/choices.js';
import { defined } from '../contract/defined.js';
import {
  type BudgetStatus,
  budgetStatusQuery,
  type BudgetWaiter,
  type FollowUpProgress,
  isEndState,
  projectBudgetWorkflowId,
} from '../contract/index.js';
import { WorkerUnavailableError } from './errors.js';
import { isOverdue, type Pending, type PendingAsk, type PendingWatch, readPending } from './pending.js';
import { type FollowUpSummary, toExecutionStatus } from './summary.js';
import { callTemporal } from './temporal-call.js';
import { fewAtATime } from '../temporal/lookups.js';
import { queryWorkflow } from './trouble.js';

/** How long a budget may take to answer. */
const BUDGET_TIMEOUT_MS = 3_000;
/** For how many follow-ups of a list Temporal is asked what their activities do. */
const MOST_DESCRIBED = 100;

/**
 * Progress with what others know by now: its place in the queue and the expected send from its budget, and the next
 * look from Temporal. Instants are ISO 8601 in UTC.
 */
export type LiveProgress = FollowUpProgress & {
  /** If `position`, `expectedSendAt` and the reason to wait cannot be confirmed now: the instant they are from. */
  asOf?: string;
  /** Set if an expected instant has passed: why, and what to do if something can be done. */
  overdue?: string;
};

/** A place in the queue of a project's budget, as the budget has it now. */
export interface BudgetPlace {
  /** 1 for the next; missing while its job is busy, and if it is not among the first in the queue. */
  position?: number;
  /** Expected instant of the send. */
  expectedAt?: string;
  /** Why the whole project waits. */
  waitReason?: WaitReason | BlockReason;
  /** Why the budget does not answer. */
  unavailable?: string;
}

/** A budget's status, or why there is none. */
interface BudgetAnswer {
  status?: BudgetStatus;
  /** Its workflow is closed. */
  isStopped?: true;
  /** It never existed, or Temporal no longer keeps it. */
  isMissing?: true;
  /** Why it does not answer. */
  silence?: string;
}

type Waiting = Extract<FollowUpProgress, { state: 'waiting-for-budget' | 'waiting-for-job' | 'blocked' }>;

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
  const { projectId, state } = progress;
  if (state === 'sending' || isEndState(state)) return progress;
  if (state !== 'waiting-for-budget') {
    const description = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
    const { watch, ask } = await readPending(client, description, nowMs);
    if (watch) return joinWatch(progress, watch);
    if (ask) return joinAsk(progress, ask);
  }
  if (!isWaiting(progress)) return progress;
  const answer = await askBudget(client, projectId, workflowId);
  const place = answer.status?.waiting.find((waiter) => waiter.workflowId === workflowId);
  return joinPlace(answer, place, progress, nowMs);
}

function isWaiting(progress: FollowUpProgress): progress is Waiting {
  return waitingStates.some((state) => state === progress.state);
}

/** Progress of a follow-up that waits in line, with its budget's answer: only those first in line are told of changes. */
export function joinPlace(
  { status, isStopped, silence }: BudgetAnswer,
  place: BudgetWaiter | undefined,
  progress: Waiting,
  nowMs: number,
): LiveProgress {
  const isLate = isOverdue(progress.expectedSendAt, nowMs);
  const asItWas = (reason: string): LiveProgress => ({
    ...progress,
    asOf: progress.learnedAt,
    ...(isLate && { overdue: reason }),
  });
  if (silence !== undefined) return asItWas(`the budget does not answer: ${silence}`);
  const { position: _position, expectedSendAt: _expectedSendAt, pause: _pause, ...rest } = progress;
  if (isStopped) return { ...rest, state: 'blocked', waitReason: 'budget-stopped' };
  if (!place || !status) return asItWas('the budget does not have it in its queue; it asks again on its own');
  const { position, expectedAt, refusal } = place;
  const facts = { ...rest, ...defined({ position, expectedSendAt: expectedAt }) };
  const waitReason = reasonOfAll(status);
  if (waitReason !== undefined) {
    const { until, note } = status.paused ?? {};
    const by = waitReason === 'paused' ? 'operator' : 'service';
    const pause = { by, ...defined({ until, note }) } as const;
    return { ...facts, state: 'blocked', waitReason, ...(waitReason !== 'counting' && { pause }) };
  }
  if (refusal) {
    const { reason, until } = refusal;
    return { ...facts, state: 'blocked', waitReason: reason, pause: { by: 'service', until } };
  }
  if (position === undefined) return { ...facts, state: 'waiting-for-job', waitReason: 'job-busy' };
  return { ...facts, state: 'waiting-for-budget', waitReason: 'slot' };
}

/** Why nobody of a project is sent; `undefined` if each has its own reason to wait. */
function reasonOfAll({ isCounting, paused }: BudgetStatus): WaitReason | undefined {
  if (isCounting) return 'counting';
  const [reason] = paused?.reasons ?? [];
  return reason === 'operator' ? 'paused' : reason;
}

function joinAsk(progress: FollowUpProgress, { reason, nextTryAt, lastError, overdue }: PendingAsk): LiveProgress {
  const { waitReason = 'service' } = progress;
  if (progress.state !== 'blocked') return progress;
  return { ...progress, waitReason: reason ?? waitReason, ...defined({ nextTryAt, lastError, overdue }) };
}

function joinWatch(progress: FollowUpProgress, watch: PendingWatch): LiveProgress {
  const { state, polls, jobSeenAt } = progress;
  const { reportedAt, nextPollAt, job, lastError, overdue, observedActive } = watch;
  const isSent = state === 'polling' || state === 'reconciling';
  const seenAt = job && lastError === undefined ? reportedAt : jobSeenAt;
  return {
    ...progress,
    polls: isSent ? polls + watch.polls : polls,
    ...defined({ nextPollAt, overdue, job, jobSeenAt: seenAt, lastError }),
    ...(state === 'polling' && observedActive && defined({ jobStatus: job?.status })),
  };
}

/** The places of follow-ups that wait for their slots or their budgets, by their workflow ids. */
export async function readPlaces(
  budgets: BudgetAnswers,
  summaries: readonly FollowUpSummary[],
): Promise<ReadonlyMap<string, BudgetPlace>> {
  const waiting = runningIn(summaries, ...waitingStates);
  const projects = [...new Set(waiting.map(({ projectId }) => projectId))];
  const answers = new Map(
    await fewAtATime(projects, async (projectId) => [projectId, await budgets.of(projectId)] as const),
  );
  const places = new Map<string, BudgetPlace>();
  for (const { workflowId, projectId } of waiting) {
    const { status, isStopped, silence } = answers.get(projectId) ?? {};
    if (silence !== undefined) places.set(workflowId, { unavailable: silence });
    if (isStopped) places.set(workflowId, { waitReason: 'budget-stopped' });
    if (!status) continue;
    const { position, expectedAt, refusal } = status.waiting.find((each) => each.workflowId === workflowId) ?? {};
    const place = defined({ position, expectedAt, waitReason: reasonOfAll(status) ?? refusal?.reason });
    if (Object.keys(place).length > 0) places.set(workflowId, place);
  }
  return places;
}

/**
 * What the activities of the newest follow-ups do that wait for their jobs or are blocked, by workflow id. Each takes a
 * call of Temporal, but no worker. A call that fails leaves its follow-up out.
 */
export async function readActivities(
  client: Client,
  newestFirst: readonly FollowUpSummary[],
): Promise<ReadonlyMap<string, Pending>> {
  const described = runningIn(newestFirst, 'polling', 'reconciling', 'waiting-for-job', 'blocked');
  const found = new Map<string, Pending>();
  await fewAtATime(described.slice(0, MOST_DESCRIBED), async ({ workflowId }) => {
    try {
      const description = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
      found.set(workflowId, await readPending(client, description, Date.now()));
    } catch {
      // The list itself is complete without this.
    }
  });
  return found;
}

function runningIn(summaries: readonly FollowUpSummary[], ...states: FollowUpSummary['state'][]): FollowUpSummary[] {
  return summaries.filter(({ status, state }) => status === 'running' && states.includes(state));
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
    // A closed one would answer, too.
    const { status } = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
    if (toExecutionStatus(status.name) !== 'running') return { isStopped: true };
    return {
      status: await queryWorkflow(client, workflowId, BUDGET_TIMEOUT_MS, budgetStatusQuery, Date.now(), about),
    };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return { silence: 'it does not exist', isMissing: true };
    }
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
