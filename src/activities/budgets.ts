import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { type Client, WithStartWorkflowOperation, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { type Delivered, projectBudgetWorkflowId, WorkflowType } from '../contract/index.js';
import {
  type Ask,
  type Asker,
  type AskReply,
  askUpdate,
  type BudgetSettings,
  firstBudgetStart,
  type FollowUpReport,
  reportSignal,
  wasDeliveredQuery,
} from '../protocol/index.js';
import { ifFound } from '../temporal/lookups.js';
import { listSends, type SendsQuery } from './list-sends.js';

const CALL_DEADLINE_MS = 5_000;
/** A budget that has not replied for so long is silent. Usually it replies within a tenth of a second. */
const SILENT_AFTER_MS = 3_000;
/** A follow-up that ends waits only so long for its budget, because a cancel should take at most ten seconds. */
const ASK_AGAIN_FOR_MS = 3_000;
const ASK_AGAIN_EVERY_MS = 500;

/** Thrown when the last run of a budget is closed. It does not restart by itself, because closing it was deliberate. */
export class BudgetStoppedError extends Error {
  constructor(projectId: string) {
    super(`The budget of project ${projectId} was stopped. To restart it: follow-up budget restore ${projectId}`);
  }
}

export type Budgets = ReturnType<typeof createBudgets>;

/**
 * Access to the projects' budgets and to Temporal's list of follow-ups.
 *
 * @param options.taskQueue of the follow-ups
 * @param options.settings for new budgets
 */
export function createBudgets(
  client: Client,
  { taskQueue, settings }: { taskQueue: string; settings: BudgetSettings },
) {
  const oneAtATime = createCallQueues();

  return {
    /**
     * Asks a project's budget for a slot. Starts a budget if Temporal keeps none of the project.
     *
     * @throws BudgetStoppedError if its last run is closed; the client's error if it does not reply
     */
    async ask(projectId: string, ask: Ask): Promise<AskReply> {
      const { cancellationSignal } = Context.current();
      // The server accepts ten concurrent updates of a workflow. This worker makes one at a time for each project.
      return oneAtATime(projectId, () => {
        cancellationSignal.throwIfAborted();
        return askOnce(client, { projectId, taskQueue, settings }, ask);
      });
    },

    /**
     * Whether another run has delivered the message. Without a budget, `no`. Takes at most 8 s.
     *
     * @throws Error if the budget does not reply
     */
    async wasDelivered(projectId: string, asker: Asker): Promise<Delivered> {
      const budget = client.workflow.getHandle(projectBudgetWorkflowId(projectId));
      const query = () => withDeadline(client, () => budget.query(wasDeliveredQuery, asker));
      for (const startedMs = performance.now(); ;) {
        try {
          return (await oneAtATime(projectId, () => ifFound(query))) ?? 'no';
        } catch (error) {
          if (performance.now() - startedMs > ASK_AGAIN_FOR_MS) throw error;
          await sleep(ASK_AGAIN_EVERY_MS);
        }
      }
    },

    /** Signals a report to a project's budget, which can miss it if it does not run. */
    async report(projectId: string, report: FollowUpReport): Promise<void> {
      const budget = client.workflow.getHandle(projectBudgetWorkflowId(projectId));
      await ifFound(() => withDeadline(client, () => budget.signal(reportSignal, report)));
    },

    listSends: (query: SendsQuery) => listSends(client, query),
  };
}

async function askOnce(client: Client, budget: Parameters<typeof firstBudgetStart>[0], ask: Ask): Promise<AskReply> {
  const startWorkflowOperation = new WithStartWorkflowOperation(WorkflowType.projectBudget, firstBudgetStart(budget));
  try {
    return await withDeadline(client, () =>
      client.workflow.executeUpdateWithStart(askUpdate, { args: [ask], startWorkflowOperation }),
    );
  } catch (error) {
    throw error instanceof WorkflowExecutionAlreadyStartedError ? new BudgetStoppedError(budget.projectId) : error;
  }
}

function withDeadline<T>(client: Client, call: () => Promise<T>): Promise<T> {
  return client.withDeadline(Date.now() + CALL_DEADLINE_MS, call);
}

/**
 * Makes the calls to each budget one after the other. While a budget is silent, one call at a time finds out whether it
 * replies again, and the others fail at once: those who wait would fill the worker's activity slots, which all projects share.
 */
function createCallQueues(): <T>(key: string, call: () => Promise<T>) => Promise<T> {
  const queues = new Map<string, { isSilent: boolean; isUnderWay: boolean; waiting: ((go: boolean) => void)[] }>();
  return async (key, call) => {
    const queue = queues.get(key) ?? { isSilent: false, isUnderWay: false, waiting: [] };
    queues.set(key, queue);
    const mayGo =
      !queue.isUnderWay || (!queue.isSilent && (await new Promise<boolean>((go) => queue.waiting.push(go))));
    if (!mayGo) throw new Error('another call waits for its reply');
    queue.isUnderWay = true;
    const silence = setTimeout(() => {
      queue.isSilent = true;
      for (const go of queue.waiting.splice(0)) go(false);
    }, SILENT_AFTER_MS);
    try {
      const reply = await call();
      queue.isSilent = false;
      return reply;
    } finally {
      clearTimeout(silence);
      const next = queue.waiting.shift();
      if (next) next(true);
      else queue.isUnderWay = false;
      if (!queue.isUnderWay && !queue.isSilent) queues.delete(key);
    }
  };
}
