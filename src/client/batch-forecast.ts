import type { Client } from '@temporalio/client';
import { forecastEnd, type ItemLeft, type Outlook } from '../batch/forecast.js';
import { type BatchItem, type BudgetStatus, budgetStatusQuery, projectBudgetWorkflowId } from '../contract/index.js';
import { type BudgetSlots, budgetSlotsQuery } from '../contract/protocol.js';
import { fewAtATime } from './few-at-a-time.js';
import { listFollowUps, listQuery, take } from './list.js';
import type { FollowUpSummary } from './summary.js';

/** Turns that have ended whose length is looked at: as many sends as a budget tells. */
const MOST_TURNS = 100;
const BUDGET_TIMEOUT_MS = 3_000;

/** What a project's budget says of what was sent, and of what will be. */
export interface ProjectAnswer {
  status: BudgetStatus;
  slots: BudgetSlots;
}

/**
 * When a batch will have ended, in epoch milliseconds, as the slots of its projects and the lengths of its turns tell;
 * `undefined` where that cannot be told: see {@link forecastEnd}. Asks each project's budget twice.
 */
export async function expectBatchEnd(
  client: Client,
  batch: { batchId: string; maxOpen: number; items: readonly BatchItem[] },
): Promise<number | undefined> {
  const isOfBatch = listQuery({ batch: batch.batchId });
  const [running, ended] = await Promise.all([
    take(listFollowUps(client, `${isOfBatch} AND ExecutionStatus = 'Running'`)),
    take(listFollowUps(client, `${isOfBatch} AND ExecutionStatus = 'Completed'`), MOST_TURNS),
  ]);
  const projectIds = [...new Set(batch.items.filter(isLeft).map(({ projectId }) => projectId))];
  const answers = await fewAtATime(projectIds, async (projectId) => [projectId, await ask(client, projectId)] as const);
  const nowMs = Date.now();
  return forecastEnd(outlookOf(batch, { running, ended, answers: new Map(answers) }), nowMs);
}

/** Puts together what the batch, Temporal's list of its follow-ups and the budgets know. */
export function outlookOf(
  { items, maxOpen }: { items: readonly BatchItem[]; maxOpen: number },
  {
    running,
    ended,
    answers,
  }: {
    running: readonly FollowUpSummary[];
    ended: readonly FollowUpSummary[];
    answers: ReadonlyMap<string, ProjectAnswer>;
  },
): Outlook {
  const sentAtMs = new Map<string, number>();
  const positions = new Map<string, number>();
  for (const { status } of answers.values()) {
    for (const { workflowId, grantedAt, outcome = 'sent' } of status.lastSends) {
      if (outcome === 'sent' || outcome === 'unknown') sentAtMs.set(workflowId, Date.parse(grantedAt));
    }
    for (const { workflowId, position } of status.waiting) if (position) positions.set(workflowId, position);
  }
  const started = new Map(running.map((summary) => [summary.workflowId, summary]));
  // Its end has not come to the batch yet.
  const isOver = new Set(ended.map(({ workflowId }) => workflowId));
  const left = items
    .filter((item) => isLeft(item) && !isOver.has(item.workflowId))
    .map(({ projectId, jobId, workflowId }): ItemLeft => {
      const summary = started.get(workflowId);
      // Older than what the budget tells of its sends: since when it was started is the next best.
      const sinceMs =
        sentAtMs.get(workflowId) ?? (summary?.state === 'polling' ? Date.parse(summary.startedAt) : undefined);
      const position = positions.get(workflowId);
      return {
        projectId,
        jobId,
        isStarted: summary !== undefined,
        ...(sinceMs !== undefined && { sentAtMs: sinceMs }),
        ...(position !== undefined && { position }),
      };
    });
  const turnsMs = ended.flatMap(({ workflowId, endedAt }) => {
    const sinceMs = sentAtMs.get(workflowId);
    return sinceMs === undefined || endedAt === undefined ? [] : [Math.max(0, Date.parse(endedAt) - sinceMs)];
  });
  const projects = new Map(
    [...answers].map(([projectId, { slots, status }]) => [
      projectId,
      { slots, inLine: status.waitingTotal - status.waitingForJob },
    ]),
  );
  return { left, maxOpen, projects, turnsMs };
}

function isLeft({ status, error }: BatchItem): boolean {
  return status === undefined && error === undefined;
}

async function ask(client: Client, projectId: string): Promise<ProjectAnswer> {
  const budget = client.workflow.getHandle(projectBudgetWorkflowId(projectId));
  const nowMs = Date.now();
  return client.withDeadline(nowMs + BUDGET_TIMEOUT_MS, async () => {
    const [status, slots] = await Promise.all([
      budget.query(budgetStatusQuery, nowMs),
      budget.query(budgetSlotsQuery, nowMs),
    ]);
    return { status, slots };
  });
}
