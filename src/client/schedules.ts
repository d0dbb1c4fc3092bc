import type { ScheduleDescription as Described, ScheduleHandle, ScheduleOverlapPolicy } from '@temporalio/client';
import { ScheduleAlreadyRunning, ScheduleNotFoundError } from '@temporalio/client';
import { z } from 'zod';
import { tooManyParts } from '../batch/pack.js';
import { defined } from '../common/index.js';
import {
  batchItemKey,
  boundedIssues,
  durationSchema,
  type FollowUpBatchInput,
  followUpBatchWorkflowId,
  idSchema,
  type InputIssue,
  parseInput,
  type ScheduleOverlap,
  scheduleOverlaps,
  workflowIdIssue,
  WorkflowIdPrefix,
  WorkflowType,
} from '../contract/index.js';
import { batchItemsOf, parseBatchInput, parseUncheckedBatchInput } from '../protocol/index.js';
import type { BatchTarget } from './batch-handle.js';
import { InvalidInputError, RefusedError } from './client-errors.js';
import { callTemporal } from './temporal.js';

/** Temporal appends each firing's due time to its id. */
const FIRING_SUFFIX = '-2026-11-21T02:00:00Z';
/** Temporal stores the batch in the schedule and copies it into each firing. */
const MAX_INPUT_BYTES = 262_144;

const CRON = /^(@(hourly|daily|midnight|weekly|monthly|yearly|annually)|[A-Za-z0-9*,/-]+( +[A-Za-z0-9*,/-]+){4})$/;
const CRON_RULE = 'must be minute, hour, day of month, month and day of week, such as "0 2 * * MON-FRI", or "@daily"';

/** Days of the week without a range into Sunday: Temporal refuses one to SUN, and drops the Sunday of 1-7. */
const DAYS = /^(?!.*[ ,](\w+-sun[a-z]*(\/\d+)?|(1|mon[a-z]*)(-7(\/1)?|\/1))(,\S*)?$)/i;
const DAYS_RULE = 'day of week: a range cannot end with Sunday, the first day; write *, or a list such as SAT,SUN';

const secondsSchema = (min: string) =>
  durationSchema(min, '365d').refine((ms) => ms % 1_000 === 0, 'must be whole seconds');

const timeZoneSchema = z.string().transform((name, context) => {
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions();
    // The server is case-sensitive. Intl corrects the case, but replaces some names by older ones.
    return timeZone.toLowerCase() === name.toLowerCase() ? timeZone : name;
  } catch {
    context.addIssue({ code: 'custom', message: 'must be a time zone such as "Europe/Berlin"' });
    return z.NEVER;
  }
});

const createSchema = z
  .strictObject({
    name: idSchema.max(
      90,
      'must be at most 90 characters, because each firing appends its time, and a retry its number',
    ),
    /** When to fire: 5 fields, or `@daily` and similar. Day of month and day of week must both match. */
    cron: z.string().trim().regex(CRON, CRON_RULE).regex(DAYS, DAYS_RULE).optional(),
    /** Or the interval, counted from 1970-01-01T00:00:00Z: 1 s to 365 d, whole seconds. */
    every: secondsSchema('1s').optional(),
    /** With `every`: delay after the start of each interval. @default 0 */
    offset: secondsSchema('0s').default(0),
    /** With `cron`: its time zone. @default 'UTC' */
    timeZone: timeZoneSchema.optional(),
    /** What a firing does while the previous one still runs. @default 'skip' */
    overlap: z.enum(scheduleOverlaps).default('skip'),
    /** How late a firing may start after an outage of Temporal, 10 s to 365 d. @default '1h' */
    catchUpWindow: durationSchema('10s', '365d').default(3_600_000),
    /** Maximum number of firings. Triggers don't count. @default no limit */
    limit: z.int('must be a whole number').min(1, 'must be at least 1').max(1e6, 'must be at most 1000000').optional(),
    note: z.string().min(1, 'must not be empty').max(500, 'must be at most 500 characters').optional(),
    /** Whether it starts paused. @default false */
    paused: z.boolean().default(false),
    /** The batch of each firing, at most 256 KiB of JSON. */
    input: z.unknown(),
  })
  .refine(({ cron, every }) => (cron ?? every) !== undefined, { path: ['cron'], error: 'is required, or every' })
  .refine(({ cron, every }) => cron === undefined || every === undefined, { path: ['every'], error: 'excludes cron' })
  .refine(({ every = 0, offset }) => !offset || offset < every, {
    path: ['offset'],
    error: 'must be below every, which it needs',
  })
  .refine(({ cron, timeZone }) => !timeZone || Boolean(cron), { path: ['timeZone'], error: 'applies to cron only' });

/** A schedule to create. */
export type CreateScheduleInput = z.input<typeof createSchema> & { input: FollowUpBatchInput };

/** Checks a schedule and its whole batch, so that one error names every invalid field. */
function parseCreateInput(input: CreateScheduleInput) {
  const schedule = parseInput(createSchema, input);
  const batch = parseBatchInput(input.input);
  const issues = (batch.ok ? unfitIssues(input.name, batch.value) : batch.issues).map(({ field, message }) => ({
    field: field ? `input.${field}` : 'input',
    message,
  }));
  if (!schedule.ok) issues.unshift(...schedule.issues);
  if (!schedule.ok || !batch.ok || issues.length > 0) throw new InvalidInputError(issues);
  return { ...schedule.value, input: batch.value };
}

function unfitIssues(name: string, batch: FollowUpBatchInput): InputIssue[] {
  const issues: InputIssue[] = [];
  const bytes = Buffer.byteLength(JSON.stringify(batch));
  const size = `must be at most ${MAX_INPUT_BYTES} bytes of JSON in a schedule (it has ${bytes}); use several schedules`;
  if (bytes > MAX_INPUT_BYTES) issues.push({ field: '', message: size });
  const tooMany = tooManyParts(batch);
  if (tooMany) issues.push(tooMany);
  if (batch.open) issues.push({ field: 'open', message: 'must be omitted: nothing adds items to a firing' });
  const list = 'items' in batch ? 'items' : 'jobIds';
  for (const [index, item] of (batchItemsOf(batch) as { projectId: string; jobId: string }[]).entries()) {
    const issue = workflowIdIssue({ ...item, key: batchItemKey(name + FIRING_SUFFIX, index) });
    if (issue) issues.push({ field: `${list}.${index}.${issue.field}`, message: issue.message });
  }
  return boundedIssues(issues);
}

/** A schedule in Temporal. Times are ISO 8601 in UTC. */
export type ScheduleDescription = ReturnType<typeof toDescription>;

function toDescription({ scheduleId, spec, policies, state, info, action }: Described) {
  const batch = parseUncheckedBatchInput(action.args?.[0]);
  const items = batch.ok ? (batchItemsOf(batch.value) as ({ projectId?: unknown } | null)[]) : [];
  const batchIdOf = ({ workflow }: { workflow: { workflowId: string } }) =>
    workflow.workflowId.replace(WorkflowIdPrefix.followUpBatch, '');
  return {
    name: scheduleId,
    times: {
      /** The expression of its creation; missing if its times were changed in Temporal. */
      cron: spec.calendars?.[0]?.comment,
      intervals: (spec.intervals ?? []).map(({ every, offset }) => ({ everyMs: every, offsetMs: offset })),
      /** Of the expression. */
      timeZone: spec.timezone || 'UTC',
    },
    /** `terminate-other` only if it was set in Temporal. */
    overlap: (policies.overlap ?? 'SKIP').toLowerCase().replace('_', '-') as ScheduleOverlap | 'terminate-other',
    catchUpWindowMs: policies.catchupWindow,
    paused: state.paused,
    /** Its note, or the reason for its pause. */
    note: state.note,
    remainingFirings: state.remainingActions,
    /** Number of follow-ups in each firing. */
    followUps: items.length,
    projectIds: [...new Set(items.map((item) => String(item?.projectId)))].sort(),
    taskQueue: action.taskQueue,
    /** At most 10. */
    nextFirings: state.remainingActions === 0 ? [] : info.nextActionTimes.map((at) => at.toISOString()),
    /** Newest first, at most 10. */
    recentFirings: info.recentActions
      .map(({ takenAt, action }) => ({ batchId: batchIdOf(action), startedAt: takenAt.toISOString() }))
      .reverse(),
    /** With overlap `allow-all`, Temporal knows at most one. */
    runningBatchIds: info.runningActions.map(batchIdOf),
    /** `skipped` by the overlap policy; `missed` because Temporal was away for longer than the catch-up window. */
    counts: {
      fired: info.numActionsTaken,
      skipped: info.numActionsSkippedOverlap,
      missed: info.numActionsMissedCatchupWindow,
    },
  };
}

/**
 * Batches of follow-ups at set times, as Temporal Schedules. Methods throw a TemporalUnreachableError, and those with a
 * name a RefusedError if the schedule does not exist.
 */
export class Schedules {
  readonly #target: Pick<BatchTarget, 'client' | 'taskQueue'>;

  /** @param target the client, and the task queue of the firings */
  constructor(target: Pick<BatchTarget, 'client' | 'taskQueue'>) {
    this.#target = target;
  }

  /**
   * Creates a schedule. Each firing is a separate batch with the id `{name}-{due time}`, so a firing that Temporal
   * repeats sends nothing twice.
   *
   * @throws InvalidInputError naming every invalid field, before anything is stored; RefusedError if the name is taken
   */
  async create(input: CreateScheduleInput): Promise<void> {
    const { name, cron, every, offset, timeZone, note, limit, ...settings } = parseCreateInput(input);
    const { client, taskQueue } = this.#target;
    const options = {
      scheduleId: name,
      spec: {
        // Temporal turns the expression into calendars, but keeps its comment.
        ...(cron !== undefined && { cronExpressions: [`${cron} # ${cron}`] }),
        ...(every !== undefined && { intervals: [{ every, offset }] }),
        ...defined({ timezone: timeZone }),
      },
      policies: {
        overlap: settings.overlap.toUpperCase().replace('-', '_') as ScheduleOverlapPolicy,
        catchupWindow: settings.catchUpWindow,
      },
      state: { paused: settings.paused, ...defined({ note, remainingActions: limit }) },
      // The reason of a pause replaces the note in the state.
      memo: defined({ note }),
      action: {
        type: 'startWorkflow' as const,
        workflowType: WorkflowType.followUpBatch,
        workflowId: followUpBatchWorkflowId({ batchId: name }),
        taskQueue,
        args: [settings.input],
        staticSummary: `Schedule ${name}`,
      },
    };
    try {
      await callTemporal(client, () => client.schedule.create(options));
    } catch (error) {
      if (error instanceof ScheduleAlreadyRunning) throw new RefusedError('ScheduleExists', name);
      // The SDK's error for times that the server refuses, such as minute 61.
      if (!(error instanceof TypeError)) throw error;
      const field = /time ?zone/i.test(error.message) ? 'timeZone' : cron === undefined ? 'every' : 'cron';
      throw new InvalidInputError([{ field, message: `${error.message} (given ${JSON.stringify(input[field])})` }]);
    }
  }

  /** All schedules of batches in the namespace. A new one may take a second to be listed. */
  async *list(): AsyncGenerator<ScheduleDescription, void, undefined> {
    const { client } = this.#target;
    const names: string[] = [];
    await callTemporal(client, async () => {
      for await (const { scheduleId, action } of client.schedule.list()) {
        if (action?.workflowType === WorkflowType.followUpBatch) names.push(scheduleId);
      }
    });
    for (const name of names) {
      try {
        yield await this.describe(name);
      } catch (error) {
        // It was deleted in the meantime.
        if (!(error instanceof RefusedError)) throw error;
      }
    }
  }

  /** Needs no worker. */
  async describe(name: string): Promise<ScheduleDescription> {
    return toDescription(await this.#run(name));
  }

  /** Stops firing until the schedule is resumed. A running batch continues. The reason replaces the note until then. */
  async pause(name: string, reason?: string): Promise<void> {
    await this.#run(name, (schedule, { state }) => schedule.pause(reason || state.note || 'paused'));
  }

  /** Fires again from the next due time, and restores the schedule's note. */
  async resume(name: string): Promise<void> {
    await this.#run(name, (schedule, { memo }) => schedule.unpause((memo?.['note'] ?? 'resumed') as string));
  }

  /** Fires now, even while paused, under the schedule's overlap policy. */
  async trigger(name: string): Promise<void> {
    await this.#run(name, (schedule, { policies }) => schedule.trigger(policies.overlap));
  }

  /** Deletes the schedule. Running batches continue. */
  async delete(name: string): Promise<void> {
    await this.#run(name, (schedule) => schedule.delete());
  }

  /** Describes the schedule first, because the namespace may have schedules of other programs. */
  async #run(name: string, action?: (schedule: ScheduleHandle, found: Described) => Promise<void>): Promise<Described> {
    const { client } = this.#target;
    const schedule = client.schedule.getHandle(name);
    try {
      const found = await callTemporal(client, () => schedule.describe());
      const { workflowType } = found.action;
      if (workflowType !== WorkflowType.followUpBatch) {
        throw new RefusedError('ForeignSchedule', name, { why: `starts ${workflowType}, not batches of follow-ups` });
      }
      if (action) await callTemporal(client, () => action(schedule, found));
      return found;
    } catch (error) {
      if (!(error instanceof ScheduleNotFoundError)) throw error;
      throw new RefusedError('ScheduleNotFound', name, { cause: error });
    }
  }
}
