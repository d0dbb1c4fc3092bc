import { type Client, ScheduleAlreadyRunning } from '@temporalio/client';
import { TypedSearchAttributes } from '@temporalio/common';
import { z } from 'zod';
import { defined } from '../contract/defined.js';
import {
  type FollowUpBatchInput,
  type FollowUpBatchResult,
  followUpBatchWorkflowId,
  parseInput,
  SearchAttribute,
  WorkflowType,
} from '../contract/index.js';
import { BatchHandle, type BatchTarget } from './batch-handle.js';
import { BatchNotFoundError, FollowUpClientError, InvalidInputError, TemporalUnreachableError } from './errors.js';
import {
  type Firing,
  parseNote,
  pauseNote,
  projectIdsOf,
  RESUMED,
  type ScheduleDescription,
  toOverlapPolicy,
  toScheduleDescription,
  toScheduleSpec,
} from './schedule-description.js';
import {
  type CreateScheduleInput,
  parseCreateScheduleInput,
  scheduleNameSchema,
  scheduleNoteSchema,
} from './schedule-input.js';
import {
  type BackfilledRange,
  type BackfillInput,
  backfillSchedule,
  callSchedule,
  describeSchedule,
  ScheduleExistsError,
  ScheduleNotFoundError,
  type ScheduleTarget,
  type TriggeredFiring,
  triggerSchedule,
} from './schedule-orders.js';
import type { ExecutionStatus } from './summary.js';
import { callTemporal, toConnectionError } from './temporal-call.js';
import { batchItemsOf } from '../contract/batch-input.js';

/** The server's own default would catch up a year of firings, all at once. */
const DEFAULT_CATCH_UP_WINDOW_MS = 3_600_000;

/** Most projects in a schedule's memo. */
const MAX_MEMO_PROJECTS = 20;

/** Batches of follow-ups at set times, on Temporal Schedules. */
export class Schedules {
  readonly #batches: BatchTarget;
  readonly #client: Client;

  /** @param batches how to read firings, and the task queue to start them on */
  constructor(batches: BatchTarget) {
    this.#batches = batches;
    this.#client = batches.client;
  }

  /**
   * Creates a schedule. Each firing is a batch of its own, with the id `{name}-{time it was due}`, so that a firing
   * that Temporal retries is not a second one.
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
        ...defined({ note, remainingActions: limit }),
      },
      memo: { followUps: batchItemsOf(batch).length, projects: projectIds.slice(0, MAX_MEMO_PROJECTS) },
      // A Keyword has one value: a schedule of several projects is found only by its memo.
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
      // The server's error for times that only it can reject, such as minute 61.
      if (!(error instanceof TypeError)) throw error;
      const [field, given] = /time ?zone/i.test(error.message)
        ? ['timeZone', input.timeZone]
        : cron === undefined
          ? ['every', input.every]
          : ['cron', cron];
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
   * The outcomes of firings, such as a description's `recentFirings`. A running batch needs a worker to answer.
   *
   * @throws TemporalUnreachableError
   */
  async outcomes(firings: readonly Firing[]): Promise<FiringOutcome[]> {
    return Promise.all(firings.map((firing) => readFiringOutcome(this.#batches, firing)));
  }

  /**
   * Handle of a schedule by its name. Makes no call: whether it exists shows on first use.
   *
   * @throws InvalidInputError if no schedule can have that name
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

/** A schedule of batches. Cheap to make: nothing is requested before a method is called. */
export class ScheduleHandle {
  readonly #target: ScheduleTarget;
  /** Also its schedule id in Temporal. */
  readonly name: string;

  constructor(client: Client, name: string) {
    this.#target = { client, name };
    this.name = name;
  }

  /**
   * How the schedule stands. Needs no worker.
   *
   * @throws ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
   */
  async describe(): Promise<ScheduleDescription> {
    return toScheduleDescription(this.name, await describeSchedule(this.#target));
  }

  /**
   * Stops firing until it is resumed. A running batch continues. Repeating it is harmless.
   *
   * @param note the reason, shown after the schedule's own note until it is resumed
   * @throws InvalidInputError, ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
   */
  async pause(note?: string): Promise<ScheduleDescription> {
    const parsed = parseInput(z.object({ note: scheduleNoteSchema.optional() }), { note });
    if (!parsed.ok) throw new InvalidInputError(parsed.issues);
    return this.#patch('pause', (own) => pauseNote(this.name, { own, since: new Date(), note }));
  }

  /**
   * Fires again from the next time on. {@link backfill} fires for the times in between.
   *
   * @throws ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
   */
  async resume(): Promise<ScheduleDescription> {
    return this.#patch('unpause', (own) => own ?? RESUMED);
  }

  /**
   * Fires now, even while paused, under the schedule's own overlap policy. Calling it again fires again.
   *
   * @throws ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
   */
  async trigger(): Promise<TriggeredFiring> {
    return triggerSchedule(this.#target);
  }

  /**
   * Fires for every time in a past range that has not fired, even while paused; by default one after another. A
   * firing has the id that it would have had on time, so none of its follow-ups is sent twice.
   *
   * @throws InvalidInputError, also for more firings than `maxFirings`; ScheduleNotFoundError, ForeignScheduleError,
   * TemporalUnreachableError
   */
  async backfill(input: BackfillInput): Promise<BackfilledRange> {
    return backfillSchedule(this.#target, input);
  }

  /**
   * Deletes the schedule. Running batches continue.
   *
   * @returns what it was
   * @throws ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
   */
  async delete(): Promise<ScheduleDescription> {
    const last = await this.describe();
    await callSchedule(this.#target, () => this.#temporal.delete());
    return last;
  }

  get #temporal() {
    return this.#target.client.schedule.getHandle(this.name);
  }

  async #patch(order: 'pause' | 'unpause', noteOf: (own: string | undefined) => string): Promise<ScheduleDescription> {
    const { state } = await describeSchedule(this.#target);
    // The server takes the order from the note: it must not be empty, and it replaces the one there was.
    const text = noteOf(parseNote(state.note).note);
    await callSchedule(this.#target, () => this.#temporal[order](text));
    return this.describe();
  }
}

/** Counts of a batch's follow-ups. */
export type FiringCounts = Pick<
  FollowUpBatchResult,
  'total' | 'completed' | 'archived' | 'failed' | 'errors' | 'unknown'
>;

/** A firing and the outcome of its batch. */
export interface FiringOutcome extends Firing {
  /** Of the batch's workflow. */
  status: ExecutionStatus;
  /** Set if the batch was cancelled. */
  cancelled?: true;
  counts?: FiringCounts;
  /** Why there are no counts. */
  countsUnavailable?: string;
}

/**
 * The outcome of a firing. A running batch needs a worker to answer.
 *
 * @throws TemporalUnreachableError
 */
async function readFiringOutcome(target: BatchTarget, firing: Firing): Promise<FiringOutcome> {
  const batch = new BatchHandle(target, firing.batchId);
  let status: ExecutionStatus = 'unknown';
  try {
    ({ status } = await batch.describe());
    if (status !== 'running' && status !== 'completed') {
      return { ...firing, status, countsUnavailable: `its workflow was ${status}` };
    }
    const standing = status === 'running' ? await batch.status() : await batch.result();
    const { total, completed, archived, failed, errors, unknown, cancelled } = standing;
    const counts = { total, completed, archived, failed, errors, unknown };
    return { ...firing, status, ...(cancelled === true && { cancelled }), counts };
  } catch (error) {
    if (error instanceof TemporalUnreachableError || !(error instanceof FollowUpClientError)) throw error;
    const countsUnavailable =
      error instanceof BatchNotFoundError ? 'Temporal no longer keeps its workflow' : `no counts: ${error.message}`;
    return { ...firing, status, countsUnavailable };
  }
}
