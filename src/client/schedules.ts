import { type Client, ScheduleAlreadyRunning } from '@temporalio/client';
import { TypedSearchAttributes } from '@temporalio/common';
import { z } from 'zod';
import {
  followUpBatchWorkflowId,
  type FollowUpBatchInput,
  parseInput,
  SearchAttribute,
  WorkflowType,
} from '../contract/index.js';
import { batchItemsOf } from '../contract/batch-input.js';
import type { BatchTarget } from './batch-handle.js';
import { InvalidInputError } from './errors.js';
import {
  type Firing,
  projectIdsOf,
  type ScheduleDescription,
  toOverlapPolicy,
  toScheduleSpec,
} from './schedule-description.js';
import { ScheduleExistsError, ScheduleNotFoundError } from './schedule-errors.js';
import { type FiringOutcome, readFiringOutcome } from './schedule-firings.js';
import { ScheduleHandle } from './schedule-handle.js';
import { type CreateScheduleInput, parseCreateScheduleInput, scheduleNameSchema } from './schedule-input.js';
import { callTemporal, toConnectionError } from './temporal-call.js';

/** The server's own default would make good a year of firings, all at once. */
const DEFAULT_CATCH_UP_WINDOW_MS = 3_600_000;

/** Projects that a schedule's memo names. */
const MAX_MEMO_PROJECTS = 20;

/** Batches of follow-ups at set times, on Temporal Schedules. */
export class Schedules {
  readonly #batches: BatchTarget;
  readonly #client: Client;

  /** @param batches how firings are looked at, and the task queue they are started on */
  constructor(batches: BatchTarget) {
    this.#batches = batches;
    this.#client = batches.client;
  }

  /**
   * Creates a schedule. Each firing is a batch of its own, with the id `{name}-{time it was due}`, so that a firing that
   * Temporal retries is not a second one.
   *
   * @throws InvalidInputError naming every bad field, before anything is created; ScheduleExistsError,
   * TemporalUnreachableError, SearchAttributesMissingError
   */
  async create(input: CreateScheduleInput): Promise<ScheduleHandle> {
    const settings = parseCreateScheduleInput(input);
    const { name, cron, overlap = 'skip', catchUpWindow, limit, note, paused, input: batch } = settings;
    const projectIds = projectIdsOf(batch);
    const [projectId] = projectIds;
    const options = {
      scheduleId: name,
      spec: toScheduleSpec(settings),
      policies: { overlap: toOverlapPolicy(overlap), catchupWindow: catchUpWindow ?? DEFAULT_CATCH_UP_WINDOW_MS },
      state: {
        paused: paused ?? false,
        ...(note !== undefined && { note }),
        ...(limit !== undefined && { remainingActions: limit }),
      },
      memo: { followUps: batchItemsOf(batch).length, projects: projectIds.slice(0, MAX_MEMO_PROJECTS) },
      // A Keyword has one value: a schedule over several projects is found by its memo only.
      ...(projectId !== undefined &&
        projectIds.length === 1 && {
          typedSearchAttributes: new TypedSearchAttributes([{ key: SearchAttribute.projectId, value: projectId }]),
        }),
      action: {
        type: 'startWorkflow' as const,
        workflowType: WorkflowType.followUpBatch,
        workflowId: followUpBatchWorkflowId({ batchId: name }),
        taskQueue: this.#batches.taskQueue,
        args: [batch],
        staticSummary: summaryOf(name, batch, projectIds),
        staticDetails: `Fired by schedule \`${name}\`. Its times and its latest batches: \`follow-up schedule describe ${name}\``,
      },
    };
    try {
      await callTemporal(this.#client, () => this.#client.schedule.create(options));
    } catch (error) {
      if (error instanceof ScheduleAlreadyRunning) throw new ScheduleExistsError(name, { cause: error });
      // The server's word on times that only it knows to be wrong, such as minute 61.
      if (!(error instanceof TypeError)) throw error;
      const [field, given] = cron === undefined ? ['every', input.every] : ['cron', cron];
      throw new InvalidInputError([{ field, message: `${error.message} (given ${JSON.stringify(given)})` }]);
    }
    return new ScheduleHandle(this.#client, name);
  }

  /**
   * All schedules of batches in the namespace. A new one may take a second to be listed.
   *
   * @throws TemporalUnreachableError while iterating
   */
  async *list(): AsyncGenerator<ScheduleDescription, void, undefined> {
    const pages = this.#client.schedule.list()[Symbol.asyncIterator]();
    for (;;) {
      let next;
      try {
        next = await this.#client.withDeadline(Date.now() + 10_000, () => pages.next());
      } catch (error) {
        throw toConnectionError(this.#client, error) ?? error;
      }
      if (next.done) return;
      const { scheduleId, action } = next.value;
      if (action?.workflowType !== WorkflowType.followUpBatch) continue;
      try {
        yield await new ScheduleHandle(this.#client, scheduleId).describe();
      } catch (error) {
        // Deleted since.
        if (!(error instanceof ScheduleNotFoundError)) throw error;
      }
    }
  }

  /**
   * What has become of firings, such as a description's `recentFirings`. Of a batch that runs, a worker has to tell.
   *
   * @throws TemporalUnreachableError
   */
  async outcomes(firings: readonly Firing[]): Promise<FiringOutcome[]> {
    return Promise.all(firings.map((firing) => readFiringOutcome(this.#batches, firing)));
  }

  /**
   * Handle of a schedule by its name. Whether there is one shows only when it is used.
   *
   * @throws InvalidInputError where no schedule could have that name
   */
  handle(name: string): ScheduleHandle {
    const parsed = parseInput(z.object({ name: scheduleNameSchema }), { name });
    if (!parsed.ok) throw new InvalidInputError(parsed.issues);
    return new ScheduleHandle(this.#client, name);
  }
}

function summaryOf(name: string, batch: FollowUpBatchInput, projectIds: readonly string[]): string {
  const [projectId] = projectIds;
  const where = projectIds.length === 1 ? projectId : `${projectIds.length} projects`;
  return `Schedule ${name}: ${batchItemsOf(batch).length} follow-ups (${where})`;
}
