import { randomUUID } from 'node:crypto';
import process from 'node:process';
import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { TypedSearchAttributes } from '@temporalio/common';
import { z } from 'zod';
import {
  batchIdSchema,
  DEFAULT_TASK_QUEUE,
  type FollowUpInput,
  followUpInputSchema,
  type FollowUpResult,
  type FollowUpSettings,
  followUpWorkflowId,
  idSchema,
  keySchema,
  parseFollowUpWorkflowId,
  parseInput,
  SearchAttribute,
  workflowIdIssue,
  WorkflowType,
} from '../contract/index.js';
import type { BudgetSettings } from '../protocol/index.js';
import { BatchHandle, type BatchTarget, startBatch, type StartedBatch } from './batch-handle.js';
import { type BatchPreview, previewBatch } from './batch-preview.js';
import { BudgetHandle, DEFAULT_BUDGET_SETTINGS } from './budget-handle.js';
import { InvalidInputError } from './client-errors.js';
import { FollowUpHandle, type FollowUpSummary, inputDiffers, StartedFollowUp } from './follow-up-handle.js';
import type { StartBatchInput, StartBatchOptions } from './hand-over.js';
import { findIdleTaskQueue, type Health, readHealth } from './health.js';
import { type ListFilter, listNewestFirst, listQuery } from './list.js';
import { listBudgets, type ListedBudget } from './list-budgets.js';
import type { ResultOptions } from './result.js';
import { Schedules } from './schedules.js';
import { callTemporal, isTooLarge } from './temporal.js';

const OTHER_IDS =
  'for a budget, run "follow-up budget show"; for a batch, "follow-up batch status"; a webhook is in the Temporal UI';

/** Options of {@link FollowUpClient}. */
export interface FollowUpClientOptions {
  /** Any Temporal client; its namespace is used. */
  client: Client;
  /** The workers' `FOLLOW_UP_TASK_QUEUE`. @default 'follow-ups' */
  taskQueue?: string;
  /**
   * Settings of budgets that `BudgetHandle` has to start: the workers' own if their `FOLLOW_UP_BUDGET_*` are set.
   *
   * @default 100 messages an hour, no reserve, a margin of 2 s
   */
  budgetSettings?: BudgetSettings;
}

/** A follow-up to start. */
export type StartInput = FollowUpInput & {
  /**
   * Unique within the job: the same key is the same follow-up, so starting it again never sends a second message.
   * @default a random UUID
   */
  key?: string;
};

/** Options of {@link FollowUpClient.run}. */
export interface RunOptions extends ResultOptions {
  /** Called after the start, before the wait. */
  onStarted?: (started: StartedFollowUp) => void;
}

/**
 * Starts and manages follow-ups through Temporal alone, without a key of the agent job service. Methods that call
 * Temporal throw a TemporalUnreachableError, and, before they send anything, an InvalidInputError naming every invalid
 * field.
 */
export class FollowUpClient {
  readonly #client: Client;
  readonly #taskQueue: string;
  readonly #budgetSettings: BudgetSettings;
  /** Batches of follow-ups at set times. */
  readonly schedules: Schedules;

  constructor({
    client,
    taskQueue = DEFAULT_TASK_QUEUE,
    budgetSettings = DEFAULT_BUDGET_SETTINGS,
  }: FollowUpClientOptions) {
    this.#client = client;
    this.#taskQueue = taskQueue;
    this.#budgetSettings = budgetSettings;
    this.schedules = new Schedules(this.#batchTarget);
  }

  /**
   * Starts a follow-up, or finds the existing one with the same key. Takes about one call to Temporal; the start is
   * durable when the promise resolves.
   *
   * @throws InvalidInputError also if the prompt is longer than the server accepts; RefusedError without the search
   *   attributes
   */
  async start(input: StartInput): Promise<StartedFollowUp> {
    const { key, followUpInput, settings } = parseStartInput(input);
    const { projectId, jobId } = settings;
    const workflowId = followUpWorkflowId({ projectId, jobId, key });
    try {
      await callTemporal(
        this.#client,
        () =>
          this.#client.workflow.start(WorkflowType.followUp, {
            workflowId,
            taskQueue: this.#taskQueue,
            args: [followUpInput],
            workflowIdReusePolicy: 'REJECT_DUPLICATE',
            workflowIdConflictPolicy: 'FAIL',
            staticSummary: `Follow-up to ${jobId} (${projectId})`,
            typedSearchAttributes: new TypedSearchAttributes([
              { key: SearchAttribute.projectId, value: projectId },
              { key: SearchAttribute.jobId, value: jobId },
            ]),
          }),
        { workflowId },
      );
      return new StartedFollowUp(this.#client, workflowId, { key, alreadyStarted: false, inputDiffers: false });
    } catch (error) {
      if (isTooLarge(error)) {
        throw new InvalidInputError([{ field: 'prompt', message: 'is longer than this Temporal server accepts' }]);
      }
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      const differs = await callTemporal(this.#client, () => inputDiffers(this.#client, workflowId, settings));
      return new StartedFollowUp(this.#client, workflowId, { key, alreadyStarted: true, inputDiffers: differs });
    }
  }

  /**
   * {@link start}, then {@link FollowUpHandle.result}, with the errors of both. If the key was used with another input,
   * the result is that follow-up's, and Node.js emits a warning with the code `FOLLOW_UP_INPUT_DIFFERS`.
   */
  async run(input: StartInput, { onStarted, ...resultOptions }: RunOptions = {}): Promise<FollowUpResult> {
    const started = await this.start(input);
    onStarted?.(started);
    if (started.inputDiffers) {
      const what = `${started.workflowId} was started before with another input; this is its result`;
      process.emitWarning(what, { type: 'FollowUpWarning', code: 'FOLLOW_UP_INPUT_DIFFERS' });
    }
    return started.result(resultOptions);
  }

  /** Handle of a follow-up by its workflow id. Makes no request until a method is called. */
  handle(workflowId: string): FollowUpHandle {
    if (!parseFollowUpWorkflowId(workflowId)) {
      const message = `must be follow-up/{projectId}/{jobId}/{key} (given ${JSON.stringify(workflowId)}); ${OTHER_IDS}`;
      throw new InvalidInputError([{ field: 'workflowId', message }]);
    }
    return new FollowUpHandle(this.#client, workflowId);
  }

  /**
   * Follow-ups that Temporal still keeps, newest first. The list may be a second old. All matches are read before the
   * first is returned: name a project or `since` if there are many.
   *
   * @throws RefusedError without the search attributes
   */
  list(filter: ListFilter = {}): AsyncIterable<FollowUpSummary> {
    return listNewestFirst(this.#client, listQuery(filter), filter.pr);
  }

  /**
   * Starts a batch of follow-ups, or finds the existing one with the same id and input. A list over 256 KiB is sent in
   * pieces: after an interruption, the same call continues.
   *
   * @throws RefusedError if the id was used with another input; WorkerUnavailableError, because a long list needs a
   *   worker
   */
  startBatch(input: StartBatchInput, options?: StartBatchOptions): Promise<StartedBatch> {
    return startBatch(this.#batchTarget, input, options);
  }

  /**
   * Checks a batch as {@link startBatch} does, and shows what prevents its sends: the budgets of its projects, or an id
   * that was used before. Sends, starts and changes nothing.
   */
  planBatch(input: StartBatchInput): Promise<BatchPreview> {
    return previewBatch(this.#client, input, (projectId) => this.budget(projectId));
  }

  /** Handle of a batch by its id. Makes no request until a method is called. */
  batch(batchId: string): BatchHandle {
    InvalidInputError.check(z.object({ id: batchIdSchema }), { id: batchId });
    return new BatchHandle(this.#batchTarget, batchId);
  }

  /** The budget of a project. */
  budget(projectId: string): BudgetHandle {
    InvalidInputError.check(z.object({ projectId: idSchema }), { projectId });
    return new BudgetHandle({ ...this.#batchTarget, projectId, settings: this.#budgetSettings });
  }

  /**
   * The server, its namespace and search attributes, the pollers of the task queues, the number of follow-ups in each
   * state, and what is blocked until it is fixed: stopped budgets, and workflows that are paused in Temporal, whose
   * activity is paused, or whose workflow tasks fail. Needs no worker.
   */
  health(): Promise<Health> {
    return readHealth(this.#client, this.#taskQueue);
  }

  /**
   * The first of the two necessary task queues whose tasks no worker gets: none polls it, or no version of those that do
   * is the current one. Waits at most a second for Temporal.
   */
  idleTaskQueue(): Promise<string | undefined> {
    return findIdleTaskQueue(this.#client, this.#taskQueue);
  }

  /**
   * The running budgets of all projects, newest first. Those with a follow-up that runs, or ended within the window of
   * `budgetSettings`, have their status: each takes a query, and a worker may have to replay the budget. The others are
   * idle and have none. The list may be a second old.
   *
   * @throws RefusedError without the search attributes
   */
  budgets(): AsyncIterable<ListedBudget> {
    return listBudgets(this.#client, (projectId) => this.budget(projectId), this.#budgetSettings.windowMs);
  }

  get #batchTarget(): BatchTarget {
    return { client: this.#client, taskQueue: this.#taskQueue };
  }
}

/**
 * Checks the whole input of {@link FollowUpClient.start}, and fills in a missing key.
 *
 * @param input an unchecked {@link StartInput}
 * @throws InvalidInputError naming every invalid field
 */
export function parseStartInput(input: unknown): {
  key: string;
  followUpInput: FollowUpInput;
  settings: FollowUpSettings;
} {
  const isObject = typeof input === 'object' && input !== null;
  const { key: givenKey, ...rest }: { key?: unknown } = isObject ? input : {};
  const settings = parseInput(followUpInputSchema, isObject ? rest : input);
  const key = parseInput(z.object({ key: keySchema }), { key: givenKey ?? randomUUID() });
  if (!settings.ok || !key.ok) {
    throw new InvalidInputError([...(settings.ok ? [] : settings.issues), ...(key.ok ? [] : key.issues)]);
  }
  const issue = workflowIdIssue({ ...settings.value, ...key.value });
  if (issue) throw new InvalidInputError([issue]);
  return { ...key.value, followUpInput: rest as FollowUpInput, settings: settings.value };
}
