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
import type { BudgetSettings } from '../contract/protocol.js';
import { BatchHandle, type BatchTarget, startBatch, type StartedBatch } from './batch.js';
import { type BatchPreview, previewBatch } from './batch-preview.js';
import { BudgetHandle, DEFAULT_BUDGET_SETTINGS, listBudgets, type ListedBudget } from './budget.js';
import { InvalidInputError } from './errors.js';
import { FollowUpHandle, type FollowUpSummary, inputDiffers, StartedFollowUp } from './follow-up.js';
import type { StartBatchInput, StartBatchOptions } from './hand-over.js';
import { findIdleTaskQueue, type Health, readHealth } from './health.js';
import { type ListFilter, listNewestFirst, listQuery } from './list.js';
import type { ResultOptions } from './result.js';
import { Schedules } from './schedules.js';
import { callTemporal, isTooLarge } from './temporal.js';

/** Options of {@link FollowUpClient}. */
export interface FollowUpClientOptions {
  /** Any Temporal client; its namespace is used. */
  client: Client;
  /** The workers' `FOLLOW_UP_TASK_QUEUE`. @default 'follow-ups' */
  taskQueue?: string;
  /**
   * Settings of a budget that `BudgetHandle` has to start: give the workers' own if their `FOLLOW_UP_BUDGET_*` are
   * set.
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
  /** Called once the follow-up is started, before the wait. */
  onStarted?: (started: StartedFollowUp) => void;
}

/**
 * Starts and manages follow-ups through Temporal alone: it needs no key of the agent job service. Methods that call
 * Temporal throw a TemporalUnreachableError, and an InvalidInputError naming every bad field before they send anything.
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
   * Starts a follow-up, or finds the one that was started with the same key. Takes about one call of Temporal; the
   * start is durable when the promise resolves.
   *
   * @throws InvalidInputError also if the prompt is longer than the server accepts; RefusedError without the search
   * attributes
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
      return new StartedFollowUp(this.#client, workflowId, key, false, false);
    } catch (error) {
      if (isTooLarge(error)) {
        throw new InvalidInputError([{ field: 'prompt', message: 'is longer than this Temporal server accepts' }]);
      }
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      const differs = await callTemporal(this.#client, () => inputDiffers(this.#client, workflowId, settings));
      return new StartedFollowUp(this.#client, workflowId, key, true, differs);
    }
  }

  /**
   * {@link start}, then {@link FollowUpHandle.result}, with the errors of both. Where the key was used for another input,
   * it is the result of that one, and Node emits a warning with the code `FOLLOW_UP_INPUT_DIFFERS`.
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

  /** Handle of a follow-up by its workflow id. Makes no call: whether it exists shows on first use. */
  handle(workflowId: string): FollowUpHandle {
    if (!parseFollowUpWorkflowId(workflowId)) {
      const message = `must be follow-up/{projectId}/{jobId}/{key} (given ${JSON.stringify(workflowId)})`;
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
    return listNewestFirst(this.#client, listQuery(filter));
  }

  /**
   * Starts a batch of follow-ups, or finds the one that was started with the same id and input. A list over 256 KiB is
   * handed over in pieces: after an interruption, the same call continues from there.
   *
   * @throws RefusedError if the id was used for another input; WorkerUnavailableError, as a long list needs a worker
   */
  startBatch(input: StartBatchInput, options?: StartBatchOptions): Promise<StartedBatch> {
    return startBatch(this.#batchTarget, input, options);
  }

  /**
   * Checks a batch as {@link startBatch} does, and tells what stands in its way: the budgets of its projects, or an id
   * that was used before. Sends, starts and changes nothing. Needs a running worker if a project has a budget.
   *
   * @throws WorkerUnavailableError
   */
  planBatch(input: StartBatchInput): Promise<BatchPreview> {
    return previewBatch(this.#client, input, (projectId) => this.budget(projectId), this.#budgetSettings);
  }

  /** Handle of a batch by its id. Makes no call: whether it exists shows on first use. */
  batch(batchId: string): BatchHandle {
    InvalidInputError.check(z.object({ id: batchIdSchema }), { id: batchId });
    return new BatchHandle(this.#batchTarget, batchId);
  }

  /** The send budget of a project. */
  budget(projectId: string): BudgetHandle {
    InvalidInputError.check(z.object({ projectId: idSchema }), { projectId });
    return new BudgetHandle({ ...this.#batchTarget, projectId, settings: this.#budgetSettings });
  }

  /**
   * The server, its namespace and search attributes, who polls the task queues, how many follow-ups are in each state,
   * and what is blocked until it is fixed: budgets that are stopped, and workflows that are paused in Temporal, whose
   * activity is, or whose workflow tasks fail. Needs no worker.
   */
  health(): Promise<Health> {
    return readHealth(this.#client, this.#taskQueue);
  }

  /**
   * The task queue that no worker polls, of the two that follow-ups need; `undefined` if both are polled. Waits for
   * Temporal for a second.
   */
  idleTaskQueue(): Promise<string | undefined> {
    return findIdleTaskQueue(this.#client, this.#taskQueue);
  }

  /**
   * The running budgets of all projects, newest first. Those of projects with a follow-up that runs, or that ended within
   * the window of `budgetSettings`, have their status: each takes a query, and a worker may have to replay the budget.
   * The others are idle and have none. The list may be a second old.
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
 * Checks everything that {@link FollowUpClient.start} needs, and gives a missing key its value.
 *
 * @param input an unchecked {@link StartInput}
 * @throws InvalidInputError naming every bad field
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
