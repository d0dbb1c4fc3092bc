import { type Client, WorkflowFailedError } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { z } from 'zod';
import type { ItemOutcome } from '../batch/outcome.js';
import { hashOfItems } from '../batch/pack.js';
import { idsOf } from '../batch/part.js';
import { fillItem } from '../contract/batch-input.js';
import { defined } from '../contract/defined.js';
import {
  type BatchItem,
  batchItemKey,
  batchItemsQuery,
  type BudgetStatus,
  budgetStatusQuery,
  followUpBatchWorkflowId,
  followUpWorkflowId,
  parseFollowUpWorkflowId,
  projectBudgetWorkflowId,
  type SendOutcome,
} from '../contract/index.js';
import { hash64 } from '../contract/text.js';
import {
  FollowUpCancelledError,
  FollowUpFailedError,
  FollowUpTerminatedError,
  FollowUpTimedOutError,
} from './errors.js';
import { readRunStart } from './history.js';
import { toFollowUpResult, toOutcomeError } from './result.js';
import { toExecutionStatus, toFollowUpSummary } from './summary.js';
import { callTemporal, isPassingTrouble } from './temporal-call.js';
import { queryWorkflow } from './trouble.js';

/** A part of thousands of events has to be read again before it answers. */
const QUERY_TIMEOUT_MS = 15_000;

/** What is known about a follow-up: its outcome, that it is open, or (neither set) nothing. */
export interface Found {
  outcome?: ItemOutcome;
  isOpen?: true;
}

/** What tells the expected follow-up from another one with the same id. */
export interface Expected {
  /** It has to be an item of this batch. */
  batchId?: string | undefined;
  /** `hash64` of the prompt that it has to have. */
  promptHash?: string | undefined;
}

/** The input of a part of a batch, as far as it matters here. */
const partInputSchema = z.looseObject({
  first: z.int().min(0),
  template: z.record(z.string(), z.unknown()),
  items: z.array(z.unknown()),
});
type PartItems = Pick<z.infer<typeof partInputSchema>, 'first' | 'template' | 'items'>;

/** Finds out how follow-ups ended: from their own results or, failing that, from what their budgets know. */
export class LookUp {
  readonly #client: Client;
  readonly #budgets = new Map<string, Promise<BudgetStatus | undefined>>();

  constructor(client: Client) {
    this.#client = client;
  }

  /**
   * How the newest run of a follow-up ended.
   *
   * @throws TemporalUnreachableError, WorkerUnavailableError
   */
  async followUp(workflowId: string, { batchId, promptHash }: Expected = {}): Promise<Found> {
    const handle = this.#client.workflow.getHandle(workflowId);
    let description;
    try {
      description = await callTemporal(this.#client, () => handle.describe());
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      const isSent = (await this.#sendOf(workflowId)) === 'sent';
      return isSent ? lost('Other', 'Temporal no longer keeps it, but its budget knows that it was sent', 'yes') : {};
    }
    const summary = toFollowUpSummary(description);
    const isOther = batchId !== undefined && summary?.batchId !== batchId;
    if (isOther) return lost('NotStarted', `${workflowId} is already used by something else`, 'unknown');
    if (promptHash !== undefined) {
      const [input] = await callTemporal(this.#client, () => readRunStart(this.#client, workflowId));
      const prompt = z.looseObject({ prompt: z.string() }).safeParse(input).data?.prompt;
      if (prompt === undefined || hash64(prompt) !== promptHash) {
        return lost('NotStarted', `${workflowId} was already used for another message; this one was not sent`, 'no');
      }
    }
    if (summary?.status === 'running') return { isOpen: true };
    try {
      const { status, prLink } = toFollowUpResult(workflowId, await callTemporal(this.#client, () => handle.result()));
      return { outcome: { status, prLink } };
    } catch (error) {
      if (error instanceof WorkflowFailedError) return this.#outcomeOf(workflowId, error);
      throw error;
    }
  }

  /**
   * How the items of a part of a batch ended, and, if that is not known for all, the items: the part itself cannot be
   * queried any more.
   *
   * @param itemsHash {@link hashOfItems} of the items that it has to have
   * @throws TemporalUnreachableError, WorkerUnavailableError
   */
  async part(
    batchId: string,
    part: number,
    itemsHash?: string,
  ): Promise<{ ended: (ItemOutcome & { index: number })[]; rest?: PartItems; isOpen?: true }> {
    const workflowId = followUpBatchWorkflowId({ batchId, part });
    const input = await readPartItems(this.#client, workflowId);
    if (input?.isRunning) return { ended: [], isOpen: true };
    if (!input || (itemsHash !== undefined && hashOfItems(input) !== itemsHash)) return { ended: [] };
    const ended: (ItemOutcome & { index: number })[] = [];
    for (const item of await this.#itemsOf(batchId, workflowId, input)) {
      const { index, status, prLink, error } = item;
      if (status !== undefined || error !== undefined) {
        ended.push({
          index,
          ...defined({ status, prLink, error }),
        });
        continue;
      }
      if (item.workflowId === '') continue;
      const { outcome } = await this.followUp(item.workflowId, { batchId });
      if (outcome) ended.push({ index, ...outcome });
    }
    const { first, template, items } = input;
    return ended.length >= items.length ? { ended } : { ended, rest: { first, template, items } };
  }

  /** The items as the part last knew them or, if it does not answer, as it was given them. */
  async #itemsOf(batchId: string, workflowId: string, { first, template, items }: PartItems): Promise<BatchItem[]> {
    const client = this.#client;
    const range = { offset: first, limit: items.length };
    try {
      const page = await client.withDeadline(Date.now() + QUERY_TIMEOUT_MS, () =>
        client.workflow.getHandle(workflowId).query(batchItemsQuery, range),
      );
      return page.items;
    } catch (error) {
      if (isPassingTrouble(error)) throw error;
      return items.map((item, position) => {
        const index = first + position;
        const { projectId, jobId } = idsOf(fillItem(item, template));
        const key = batchItemKey(batchId, index);
        return {
          index,
          projectId,
          jobId,
          workflowId: projectId && jobId && followUpWorkflowId({ projectId, jobId, key }),
        };
      });
    }
  }

  async #outcomeOf(workflowId: string, failure: WorkflowFailedError): Promise<Found> {
    const error = toOutcomeError(workflowId, failure);
    if (error instanceof FollowUpFailedError) return lost(error.type, error.message, error.delivered);
    if (error instanceof FollowUpCancelledError) return lost('Cancelled', error.message, 'no');
    const isCutOff = error instanceof FollowUpTerminatedError || error instanceof FollowUpTimedOutError;
    const isSent = (await this.#sendOf(workflowId)) === 'sent';
    const delivered = isSent ? 'yes' : 'unknown';
    return lost(isCutOff ? 'Terminated' : 'Other', isSent ? 'It was cut off after its send' : error.message, delivered);
  }

  /**
   * The outcome of its latest send according to its budget; `undefined` if the budget knows none.
   *
   * @throws WorkerUnavailableError if the budget does not answer: it may know that the message was sent
   */
  async #sendOf(workflowId: string): Promise<SendOutcome | undefined> {
    const ids = parseFollowUpWorkflowId(workflowId);
    if (!ids) return undefined;
    const { projectId } = ids;
    const asked = this.#budgets.get(projectId) ?? this.#readBudget(projectId);
    this.#budgets.set(projectId, asked);
    return (await asked)?.lastSends.find((send) => send.workflowId === workflowId)?.outcome;
  }

  async #readBudget(projectId: string): Promise<BudgetStatus | undefined> {
    const client = this.#client;
    try {
      const workflowId = projectBudgetWorkflowId(projectId);
      return await queryWorkflow(client, workflowId, QUERY_TIMEOUT_MS, budgetStatusQuery, Date.now());
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      return undefined;
    }
  }
}

/**
 * The items that a part was started with; `undefined` if Temporal no longer keeps them.
 *
 * @throws TemporalUnreachableError; ZodError if it is not a part
 */
export async function readPartItems(
  client: Client,
  workflowId: string,
): Promise<(PartItems & { isRunning: boolean }) | undefined> {
  try {
    const { raw, status } = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
    const runId = raw.workflowExecutionInfo?.firstRunId;
    const [input] = await callTemporal(client, () => readRunStart(client, workflowId, runId ?? undefined));
    const { first, template, items } = partInputSchema.parse(input);
    return { first, template, items, isRunning: toExecutionStatus(status.name) === 'running' };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

function lost(
  type: NonNullable<ItemOutcome['error']>['type'],
  message: string,
  delivered: NonNullable<ItemOutcome['error']>['delivered'],
): Found {
  return { outcome: { error: { type, message, delivered } } };
}
