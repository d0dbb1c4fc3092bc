import { type Client, QueryNotRegisteredError } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { type BudgetStatus, budgetStatusQuery, projectBudgetWorkflowId } from '../contract/index.js';
import { WorkerUnavailableError } from './errors.js';
import { callTemporal, grpcDetails, isPassingTrouble } from './temporal-call.js';

const QUERY_TIMEOUT_MS = 5_000;

/** The send budget of one project. */
export class BudgetHandle {
  readonly #client: Client;
  /** `project-budget/{projectId}` */
  readonly workflowId: string;

  constructor(
    client: Client,
    readonly projectId: string,
  ) {
    this.#client = client;
    this.workflowId = projectBudgetWorkflowId(projectId);
  }

  /**
   * Whether the budget's workflow is there: `none` before the project's first follow-up, `stopped` after somebody
   * terminated it.
   *
   * @throws TemporalUnreachableError
   */
  async state(): Promise<'none' | 'running' | 'stopped'> {
    try {
      const { status } = await callTemporal(this.#client, () => this.#handle.describe());
      return status.name === 'RUNNING' || status.name === 'CONTINUED_AS_NEW' ? 'running' : 'stopped';
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return 'none';
      throw error;
    }
  }

  /**
   * Slots, queue and last sends; `undefined` before the project's first follow-up. Needs a running worker.
   *
   * @throws WorkerUnavailableError, TemporalUnreachableError
   */
  async status(): Promise<BudgetStatus | undefined> {
    try {
      const deadline = Date.now() + QUERY_TIMEOUT_MS;
      return await this.#client.withDeadline(deadline, () => this.#handle.query(budgetStatusQuery));
    } catch (error) {
      // A query waits for a worker: without one it ends at the deadline, just as without a server.
      if (error instanceof WorkflowNotFoundError || (await this.state()) === 'none') return undefined;
      const reason =
        error instanceof QueryNotRegisteredError
          ? 'it has not begun'
          : isPassingTrouble(error)
            ? 'no worker runs, or it is overloaded'
            : (grpcDetails(error) ?? String(error));
      throw new WorkerUnavailableError(this.workflowId, reason, { cause: error });
    }
  }

  get #handle() {
    return this.#client.workflow.getHandle(this.workflowId);
  }
}
