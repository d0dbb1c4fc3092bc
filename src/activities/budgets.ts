import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import {
  type Client,
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
} from '@temporalio/client';
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
import type { ServerClock } from '../temporal/server-clock.js';
import { createCallQueues } from './call-queues.js';
import { listSends, type SendsQuery } from './list-sends.js';

const CALL_DEADLINE_MS = 5_000;
/** A follow-up that ends waits only so long for its budget, because a cancel should take at most ten seconds. */
const QUERY_AGAIN_FOR_MS = 3_000;
const QUERY_AGAIN_EVERY_MS = 500;

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
 * @param options.serverClock learns the server's time from each reply
 */
export function createBudgets(
  client: Client,
  { taskQueue, settings, serverClock }: { taskQueue: string; settings: BudgetSettings; serverClock?: ServerClock },
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
      return oneAtATime(projectId, async () => {
        cancellationSignal.throwIfAborted();
        const askedAtMs = Date.now();
        const { repliedAtMs, ...reply } = await askOnce(client, { projectId, taskQueue, settings }, ask);
        serverClock?.observe(askedAtMs, repliedAtMs, Date.now());
        return reply;
      });
    },

    /**
     * Whether another run has delivered the message. Without a budget, `no`. Takes about 9 s at most, or longer
     * while other calls to the budget wait.
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
          if (performance.now() - startedMs > QUERY_AGAIN_FOR_MS) throw error;
          await sleep(QUERY_AGAIN_EVERY_MS);
        }
      }
    },

    /**
     * Signals a report to a project's budget, which misses it if its last run is closed. The outcome of a send starts a
     * budget if Temporal keeps none of the project: it was deleted during the send, which Temporal's list may not show
     * yet.
     */
    report: (projectId: string, report: FollowUpReport): Promise<void> =>
      sendReport(client, { projectId, taskQueue, settings }, report),

    listSends: (query: SendsQuery) => listSends(client, query),
  };
}

async function askOnce(client: Client, budget: Parameters<typeof firstBudgetStart>[0], ask: Ask) {
  const startWorkflowOperation = new WithStartWorkflowOperation(WorkflowType.projectBudget, firstBudgetStart(budget));
  try {
    return await withDeadline(client, () =>
      client.workflow.executeUpdateWithStart(askUpdate, { args: [ask], startWorkflowOperation }),
    );
  } catch (error) {
    throw error instanceof WorkflowExecutionAlreadyStartedError ? new BudgetStoppedError(budget.projectId) : error;
  }
}

/** Whether a report starts a budget if Temporal keeps none of the project. */
export function startsBudget(report: FollowUpReport): boolean {
  return report.kind === 'outcome' && report.outcome !== 'notSent';
}

async function sendReport(
  client: Client,
  budget: Parameters<typeof firstBudgetStart>[0],
  report: FollowUpReport,
): Promise<void> {
  const { workflow } = client;
  const start = firstBudgetStart(budget);
  const signal = { signal: reportSignal, signalArgs: [report] as [FollowUpReport] };
  const send = () => workflow.getHandle(start.workflowId).signal(reportSignal, report);
  const sendOrStart = () => workflow.signalWithStart(WorkflowType.projectBudget, { ...start, ...signal });
  try {
    await withDeadline<unknown>(client, startsBudget(report) ? sendOrStart : send);
  } catch (error) {
    const isClosed = error instanceof WorkflowNotFoundError || error instanceof WorkflowExecutionAlreadyStartedError;
    if (!isClosed) throw error;
  }
}

function withDeadline<T>(client: Client, call: () => Promise<T>): Promise<T> {
  return client.withDeadline(Date.now() + CALL_DEADLINE_MS, call);
}
