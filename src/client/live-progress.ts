import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import {
  type BudgetStatus,
  budgetStatusQuery,
  type BudgetWaiter,
  type FollowUpProgress,
  isEndState,
  projectBudgetWorkflowId,
} from '../contract/index.js';
import { fewAtATime } from './few-at-a-time.js';
import { isLooking, joinPendingWatch } from './pending-watch.js';
import type { FollowUpSummary } from './summary.js';
import { callTemporal } from './temporal-call.js';
import { readTrouble, reasonOf, reasonOfSilence } from './trouble.js';

/** A promised instant that has passed by more is overdue: clocks differ, and lists of Temporal lag behind. */
const OVERDUE_AFTER_MS = 5_000;
/** A look after a timer shows nothing of itself while it is under way. */
const LOOK_LASTS_MS = 10_000;
const BUDGET_TIMEOUT_MS = 3_000;
const NOT_COME = 'its budget has woken it, but no worker has picked that up yet';

/**
 * Progress with what others know by now: the budget its place in the line and the expected instant of the send, and
 * Temporal when the next look is. Instants are ISO 8601 in UTC.
 */
export type LiveProgress = FollowUpProgress & {
  /** Where `position`, `expectedSendAt` and `nextPollAt` are not of now, because nobody confirms them: since when not. */
  asOf?: string;
  /** An instant that was promised has passed: why, and the way out where there is one. */
  overdue?: string;
};

/** A place in the line of a project's budget, as the budget says it now. */
export interface BudgetPlace {
  /** 1 for the next; missing where its job is busy. */
  position?: number;
  /** Expected instant of the send. */
  expectedAt?: string;
  /** Why the budget says nothing. */
  unavailable?: string;
  /** Its slot has been there for some seconds, and it has not come: why. */
  overdue?: string;
}

/** What a budget says, or why it says nothing. */
type BudgetAnswer = { status: BudgetStatus; silence?: never } | { status?: never; silence: string };

/**
 * Brings what a follow-up itself knows up to date.
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
  if (isLooking(description) || !isOverdue(live.nextPollAt, nowMs, lateMs)) return live;
  return { ...live, overdue: await reasonOfDelay(client, workflowId, 'no worker has picked up the look yet') };
}

async function reasonOfDelay(client: Client, workflowId: string, otherwise: string): Promise<string> {
  const trouble = await readTrouble(client, workflowId);
  return trouble ? reasonOf(trouble) : otherwise;
}

/** What a follow-up that waits for its slot is told by its budget. */
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
    // It hears of that at its next ask.
    const { reasons, until, note } = status.paused;
    if (reasons.every((reason) => reason === 'credentials')) {
      return { ...rest, state: 'blocked', waitReason: 'credentials' };
    }
    const by = reasons.includes('operator') ? 'operator' : 'service';
    const pause = { by, ...(until !== undefined && { until }), ...(note !== undefined && { note }) } as const;
    return { ...rest, state: 'blocked', waitReason: 'paused', pause };
  }
  return {
    ...rest,
    ...(place.position !== undefined && { position: place.position }),
    ...(place.expectedAt !== undefined && { expectedSendAt: place.expectedAt }),
  };
}

/** The same places for many follow-ups, by their workflow ids: each budget is asked once. */
export async function readPlaces(
  client: Client,
  summaries: readonly FollowUpSummary[],
  nowMs = Date.now(),
): Promise<ReadonlyMap<string, BudgetPlace>> {
  const waiting = summaries.filter(({ status, state }) => status === 'running' && state === 'waiting-for-budget');
  const projects = [...new Set(waiting.map(({ projectId }) => projectId))];
  const answers = new Map<string, BudgetAnswer>();
  await fewAtATime(projects, async (projectId) => answers.set(projectId, await askBudget(client, projectId)));
  const places = new Map<string, BudgetPlace>();
  for (const { workflowId, projectId } of waiting) {
    const { status, silence } = answers.get(projectId) ?? {};
    if (silence !== undefined) places.set(workflowId, { unavailable: silence });
    const waiter = status?.waiting.find((each) => each.workflowId === workflowId);
    if (!waiter) continue;
    const { position, expectedAt, calledAt } = waiter;
    places.set(workflowId, {
      ...(position !== undefined && { position }),
      ...(expectedAt !== undefined && { expectedAt }),
      ...(isOverdue(calledAt, nowMs) && { overdue: NOT_COME }),
    });
  }
  return places;
}

async function askBudget(client: Client, projectId: string, about?: string): Promise<BudgetAnswer> {
  const workflowId = projectBudgetWorkflowId(projectId);
  try {
    const query = () => client.workflow.getHandle(workflowId).query(budgetStatusQuery, Date.now(), about);
    return { status: await client.withDeadline(Date.now() + BUDGET_TIMEOUT_MS, query) };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return { silence: 'it does not exist any more' };
    return { silence: await reasonOfSilence(client, workflowId, error) };
  }
}

/** Whether an instant that was promised has passed by more than clocks differ. */
export function isOverdue(instant: string | undefined, nowMs: number, byMs = OVERDUE_AFTER_MS): boolean {
  return instant !== undefined && Date.parse(instant) + byMs < nowMs;
}
