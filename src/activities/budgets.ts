import { Context } from '@temporalio/activity';
import { type Client, WithStartWorkflowOperation, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { projectBudgetWorkflowId, SearchAttribute, WorkflowType } from '../contract/index.js';
import { sendingStates, waitingStates } from '../contract/choices.js';
import { iso } from '../contract/durations.js';
import { ifFound } from '../temporal/lookups.js';
import type { ListedSend } from '../budget/budget.js';
import type { RecentSends } from '../budget/loop.js';
import {
  type Answer,
  type Ask,
  askUpdate,
  type BudgetEvent,
  type BudgetSettings,
  firstBudgetStart,
  tellSignal,
} from '../contract/protocol.js';

const CALL_DEADLINE_MS = 5_000;
/** Most sends that a list names: as many as a budget remembers. The others are counted. */
const MAX_LISTED = 2_000;

export interface SendsQuery {
  projectId: string;
  sinceMs: number;
  alsoWaiting: boolean;
}

/** The last run of a budget is closed. It does not start again by itself, because somebody stopped it. */
export class BudgetStoppedError extends Error {
  constructor(projectId: string) {
    super(`The budget of project ${projectId} was stopped. To start it again: follow-up budget restore ${projectId}`);
  }
}

/** What the activities ask of the projects' budgets, and of Temporal's list of follow-ups. */
export type Budgets = ReturnType<typeof createBudgets>;

/**
 * @param options.taskQueue that of the follow-ups
 * @param options.settings of budgets that do not exist yet
 */
export function createBudgets(
  client: Client,
  { taskQueue, settings }: { taskQueue: string; settings: BudgetSettings },
) {
  const inTurn = createTurns();
  const withDeadline = <T>(call: () => Promise<T>) => client.withDeadline(Date.now() + CALL_DEADLINE_MS, call);

  async function askOnce(projectId: string, ask: Ask): Promise<Answer> {
    const first = firstBudgetStart({ projectId, taskQueue, settings });
    const startWorkflowOperation = new WithStartWorkflowOperation(WorkflowType.projectBudget, first);
    try {
      return await withDeadline(() =>
        client.workflow.executeUpdateWithStart(askUpdate, { args: [ask], startWorkflowOperation }),
      );
    } catch (error) {
      throw error instanceof WorkflowExecutionAlreadyStartedError ? new BudgetStoppedError(projectId) : error;
    }
  }

  return {
    /**
     * Asks a project's budget, which starts if it never existed.
     *
     * @throws BudgetStoppedError if its last run is closed; otherwise the client's error if it does not answer
     */
    async ask(projectId: string, ask: Ask): Promise<Answer> {
      const { cancellationSignal } = Context.current();
      // The server accepts ten updates of a workflow at a time. This worker makes one at a time for each project.
      return inTurn(projectId, () => {
        cancellationSignal.throwIfAborted();
        return askOnce(projectId, ask);
      });
    },

    /** Tells a project's budget something. One that does not run does not need to know. */
    async tell(projectId: string, event: BudgetEvent): Promise<void> {
      const budget = client.workflow.getHandle(projectBudgetWorkflowId(projectId));
      await ifFound(() => withDeadline(() => budget.signal(tellSignal, event)));
    },

    /** When a run of a workflow closed, in epoch milliseconds; `undefined` if it runs, or if Temporal keeps it no longer. */
    async closedAtMs(workflowId: string, runId: string): Promise<number | undefined> {
      const run = await ifFound(() => withDeadline(() => client.workflow.getHandle(workflowId, runId).describe()));
      return run?.closeTime?.getTime();
    },

    /**
     * Follow-ups of a project that may have been sent: those that closed since `sinceMs`, and those that run after their
     * send.
     *
     * @param query.alsoWaiting also those that wait, because one may have a grant that its state does not show yet. A
     *   follow-up that shows no state has sent nothing
     */
    async listSends({ projectId, sinceMs, alsoWaiting }: SendsQuery): Promise<Pick<RecentSends, 'sends' | 'others'>> {
      const state = SearchAttribute.state.name;
      const isShown = alsoWaiting ? 'IS NOT NULL' : `IN (${sendingStates.map((sending) => `'${sending}'`).join(', ')})`;
      const running = `(ExecutionStatus = 'Running' AND ${state} ${isShown})`;
      // Server 1.29 finds running workflows by a CloseTime, too.
      const closed = `(ExecutionStatus != 'Running' AND CloseTime >= '${iso(sinceMs)}')`;
      const ofProject = `WorkflowType = '${WorkflowType.followUp}' AND ${SearchAttribute.projectId.name} = '${projectId}'`;
      const found: (ListedSend & { closedAtMs: number })[] = [];
      for await (const each of client.workflow.list({ query: `${ofProject} AND (${running} OR ${closed})` })) {
        const { name: status } = each.status;
        const isRunning = status === 'RUNNING';
        const shown = each.typedSearchAttributes.get(SearchAttribute.state);
        // A follow-up ends as Canceled only if nothing was sent.
        if (!isRunning && (shown === 'not-sent' || status === 'CANCELLED')) continue;
        const closedAtMs = each.closeTime?.getTime() ?? Number.MAX_SAFE_INTEGER;
        const isWaiting = isRunning && waitingStates.some((waiting) => waiting === shown);
        found.push({ workflowId: each.workflowId, isRunning, isWaiting, closedAtMs });
      }
      found.sort((a, b) => a.closedAtMs - b.closedAtMs);
      const sends = found.slice(-MAX_LISTED).map(({ closedAtMs: _, ...send }) => send);
      return { sends, others: found.length - sends.length };
    },
  };
}

/** Runs calls of the same key one after the other. */
function createTurns(): <T>(key: string, call: () => Promise<T>) => Promise<T> {
  const last = new Map<string, Promise<unknown>>();
  return async (key, call) => {
    const mine = (last.get(key) ?? Promise.resolve()).then(call);
    const settled = mine.catch(() => undefined);
    last.set(key, settled);
    try {
      return await mine;
    } finally {
      if (last.get(key) === settled) last.delete(key);
    }
  };
}
