import type { Client } from '@temporalio/client';
import { forecastEnd, type ItemLeft, type Outlook } from '../batch/forecast.js';
import { defined } from '../contract/defined.js';
import { type BatchItem, type BudgetStatus, projectBudgetWorkflowId } from '../contract/index.js';
import { WorkerUnavailableError } from './errors.js';
import { listFollowUps, listQuery, take } from './list.js';
import { BUDGET_TIMEOUT_MS, type BudgetAnswers } from './live-progress.js';
import type { FollowUpSummary } from './summary.js';
import { fewAtATime } from './temporal-call.js';
import { queryWorkflow } from './trouble.js';
import { type BudgetSlots, budgetSlotsQuery } from '../contract/protocol.js';

/** Most ended turns whose length is measured: as many as a budget lists sends. */
const MOST_TURNS = 100;

/** What a project's budget says about past and future sends. */
interface ProjectAnswer {
  status: BudgetStatus;
  slots: BudgetSlots;
}

/**
 * When a batch is expected to end, in epoch milliseconds, from the slots of its projects and the lengths of its turns;
 * `undefined` if that is unknown: see {@link forecastEnd}.
 */
export async function expectBatchEnd(
  client: Client,
  budgets: BudgetAnswers,
  batch: { batchId: string; maxOpen: number; items: readonly BatchItem[] },
): Promise<number | undefined> {
  const isOfBatch = listQuery({ batch: batch.batchId });
  const [running, ended] = await Promise.all([
    take(listFollowUps(client, `${isOfBatch} AND ExecutionStatus = 'Running'`)),
    take(listFollowUps(client, `${isOfBatch} AND ExecutionStatus = 'Completed'`), MOST_TURNS),
  ]);
  const projectIds = [...new Set(batch.items.filter(isLeft).map(({ projectId }) => projectId))];
  const answers = await fewAtATime(
    projectIds,
    async (projectId) => [projectId, await ask(client, budgets, projectId)] as const,
  );
  const nowMs = Date.now();
  return forecastEnd(outlookOf(batch, { running, ended, answers: new Map(answers) }), nowMs);
}

/** Combines what the batch, Temporal's list of its follow-ups, and the budgets know. */
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
  // The batch has not heard of their ends yet.
  const isOver = new Set(ended.map(({ workflowId }) => workflowId));
  const left = items
    .filter((item) => isLeft(item) && !isOver.has(item.workflowId))
    .map(({ projectId, jobId, workflowId }): ItemLeft => {
      const summary = started.get(workflowId);
      // Its send is older than those that the budget lists: its own start is the best guess.
      const sinceMs =
        sentAtMs.get(workflowId) ?? (summary?.state === 'polling' ? Date.parse(summary.startedAt) : undefined);
      const position = positions.get(workflowId);
      return {
        projectId,
        jobId,
        isStarted: summary !== undefined,
        ...defined({ sentAtMs: sinceMs, position }),
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

/** @throws if the budget does not answer */
async function ask(client: Client, budgets: BudgetAnswers, projectId: string): Promise<ProjectAnswer> {
  const workflowId = projectBudgetWorkflowId(projectId);
  const [{ status, silence }, slots] = await Promise.all([
    budgets.of(projectId),
    queryWorkflow(client, workflowId, BUDGET_TIMEOUT_MS, budgetSlotsQuery, Date.now()),
  ]);
  if (!status) throw new WorkerUnavailableError(workflowId, silence);
  return { status, slots };
}
