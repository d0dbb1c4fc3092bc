import type {
  CalendarSpecDescription,
  ScheduleDescription as TemporalDescription,
  ScheduleOverlapPolicy,
  ScheduleSpec,
} from '@temporalio/client';
import { defined } from '../contract/defined.js';
import { type FollowUpBatchInput, parseFollowUpBatchWorkflowId } from '../contract/index.js';
import type { ScheduleSettings } from './schedule-input.js';
import { batchItemsOf, parseUncheckedBatchInput } from '../contract/batch-input.js';
import { type ScheduleOverlap } from '../contract/choices.js';

/** When a schedule fires. If somebody changed it in Temporal, it may be more than `create` can make. */
export interface ScheduleTimes {
  /** The expression it was created with. */
  cron?: string;
  /** Calendar times as the server parsed them from the expression. */
  calendars: CalendarTimes[];
  intervals: { everyMs: number; offsetMs: number }[];
  /** Of the calendars. */
  timeZone: string;
  /** Each firing is delayed by a random time up to this. */
  jitterMs: number;
  startAt?: string;
  endAt?: string;
}

/** Times that match in all fields; without a range every year matches. */
type CalendarTimes = Omit<CalendarSpecDescription, 'comment'>;

/** One firing of a schedule: a batch. */
export interface Firing {
  batchId: string;
  workflowId: string;
  /** When it was due, jitter included. */
  scheduledAt: string;
  startedAt: string;
}

/** A schedule as Temporal has it. Instants are ISO 8601 in UTC. */
export interface ScheduleDescription {
  name: string;
  times: ScheduleTimes;
  /** `terminate-other` only if somebody set it in Temporal. */
  overlap: ScheduleOverlap | 'terminate-other';
  catchUpWindowMs: number;
  paused: boolean;
  note?: string;
  /** Set if this library paused it: since when, and why if a reason was given. */
  pause?: { since: string; note?: string };
  /** Remaining firings, if there is a limit. */
  remainingFirings?: number;
  /** Number of follow-ups in each firing, and their projects. */
  followUps: number;
  projectIds: string[];
  taskQueue: string;
  /** At most 10; empty if it is done, or its limit is used up. */
  nextFirings: string[];
  /** Newest first, at most 10. */
  recentFirings: Firing[];
  /** Running batches. With overlap `allow-all` Temporal knows at most one. */
  runningBatchIds: string[];
  /** Firings that wait for the running one. */
  buffered: number;
  counts: {
    fired: number;
    /** Skipped because the previous firing was still running. */
    skipped: number;
    /** Skipped because Temporal was away for longer than the catch-up window. */
    missed: number;
  };
  createdAt: string;
  updatedAt?: string;
}

const TO_OVERLAP = {
  SKIP: 'skip',
  BUFFER_ONE: 'buffer-one',
  BUFFER_ALL: 'buffer-all',
  CANCEL_OTHER: 'cancel-other',
  TERMINATE_OTHER: 'terminate-other',
  ALLOW_ALL: 'allow-all',
} as const satisfies Record<NonNullable<ScheduleOverlapPolicy>, string>;

const TO_POLICY = {
  skip: 'SKIP',
  'buffer-one': 'BUFFER_ONE',
  'buffer-all': 'BUFFER_ALL',
  'cancel-other': 'CANCEL_OTHER',
  'allow-all': 'ALLOW_ALL',
} as const satisfies Record<ScheduleOverlap, ScheduleOverlapPolicy>;

/** Temporal's word for an overlap policy. */
export function toOverlapPolicy(overlap: ScheduleOverlap) {
  return TO_POLICY[overlap];
}

/** Temporal's form of the times. The expression is also its own comment, with which the server returns it. */
export function toScheduleSpec(settings: ScheduleSettings): ScheduleSpec {
  const { cron, every, offset, timeZone, jitter, startAt, endAt } = settings;
  return {
    ...(cron !== undefined && { cronExpressions: [`${cron} # ${cron}`] }),
    ...(every !== undefined && { intervals: [{ every, offset: offset ?? 0 }] }),
    ...defined({ timezone: timeZone }),
    ...(startAt !== undefined && { startAt: new Date(startAt) }),
    ...(endAt !== undefined && { endAt: new Date(endAt) }),
    jitter: jitter ?? 0,
  };
}

/** The note of a resumed schedule without one: the server accepts no empty note. */
export const RESUMED = 'resumed';

const PAUSE_NOTE =
  /^(?:([\s\S]*) \| )?paused since (\d{4}-[\d:T-]+Z)(?:: ([\s\S]*?))?(?:; follow-up schedule resume \S+)?$/;

/**
 * Temporal keeps one note per schedule: the note of a pause follows the schedule's own, and tells how to end the pause.
 */
export function pauseNote(
  name: string,
  { own, since, note }: { own: string | undefined; since: Date; note: string | undefined },
): string {
  const why = note === undefined ? '' : `: ${note}`;
  const pause = `paused since ${since.toISOString().slice(0, 19)}Z${why}; follow-up schedule resume ${name}`;
  return own === undefined ? pause : `${own} | ${pause}`;
}

/** A schedule's own note, and what {@link pauseNote} added to it. */
export function parseNote(text: string | undefined, isPaused = true): Pick<ScheduleDescription, 'note' | 'pause'> {
  const [isPause, own, since = '', why] = PAUSE_NOTE.exec(text ?? '') ?? [];
  const note = isPause === undefined ? text : own;
  return {
    ...(note !== undefined && note !== '' && note !== RESUMED && { note }),
    ...(isPaused && isPause !== undefined && { pause: { since, ...defined({ note: why }) } }),
  };
}

/** This library's description of a schedule. */
export function toScheduleDescription(name: string, described: TemporalDescription): ScheduleDescription {
  const { policies, state, info, action, raw } = described;
  const { note, remainingActions } = state;
  const batch = batchIn(action.args?.[0]);
  return {
    name,
    times: toTimes(described.spec),
    overlap: TO_OVERLAP[policies.overlap ?? 'SKIP'],
    catchUpWindowMs: policies.catchupWindow,
    paused: state.paused,
    ...parseNote(note, state.paused),
    ...defined({ remainingFirings: remainingActions }),
    ...batch,
    taskQueue: action.taskQueue,
    nextFirings: remainingActions === 0 ? [] : info.nextActionTimes.map((at) => at.toISOString()),
    recentFirings: info.recentActions
      .map(({ scheduledAt, takenAt, action: { workflow } }) => ({
        batchId: batchIdOf(workflow.workflowId),
        workflowId: workflow.workflowId,
        scheduledAt: scheduledAt.toISOString(),
        startedAt: takenAt.toISOString(),
      }))
      .reverse(),
    runningBatchIds: info.runningActions.map(({ workflow }) => batchIdOf(workflow.workflowId)),
    buffered: raw.info?.bufferSize?.toNumber() ?? 0,
    counts: {
      fired: info.numActionsTaken,
      skipped: info.numActionsSkippedOverlap,
      missed: info.numActionsMissedCatchupWindow,
    },
    createdAt: info.createdAt.toISOString(),
    ...defined({ updatedAt: info.lastUpdatedAt?.toISOString() }),
  };
}

function toTimes({
  calendars = [],
  intervals = [],
  timezone,
  jitter,
  startAt,
  endAt,
}: TemporalDescription['spec']): ScheduleTimes {
  const cron = calendars.length === 1 ? calendars[0]?.comment : undefined;
  return {
    ...(cron !== undefined && cron !== '' && { cron }),
    calendars: calendars.map(toCalendar),
    intervals: intervals.map(({ every, offset }) => ({ everyMs: every, offsetMs: offset })),
    timeZone: timezone === undefined || timezone === '' ? 'UTC' : timezone,
    jitterMs: jitter ?? 0,
    ...defined({ startAt: startAt?.toISOString(), endAt: endAt?.toISOString() }),
  };
}

function toCalendar(calendar: CalendarSpecDescription): CalendarTimes {
  const { second, minute, hour, dayOfMonth, month, year, dayOfWeek } = calendar;
  return { second, minute, hour, dayOfMonth, month, year, dayOfWeek };
}

/** The content of a firing's batch; empty if its input is not a batch's. */
function batchIn(input: unknown): { followUps: number; projectIds: string[] } {
  const parsed = parseUncheckedBatchInput(input);
  if (!parsed.ok) return { followUps: 0, projectIds: [] };
  const items = batchItemsOf(parsed.value);
  const projectIds = items.flatMap((item) =>
    typeof item === 'object' && item !== null && 'projectId' in item ? [String(item.projectId)] : [],
  );
  return { followUps: items.length, projectIds: [...new Set(projectIds)].sort() };
}

/** Projects of a batch's follow-ups. */
export function projectIdsOf(input: FollowUpBatchInput): string[] {
  return batchIn(input).projectIds;
}

/** The batch's id; for a workflow that is not a batch, its workflow id. */
function batchIdOf(workflowId: string): string {
  return parseFollowUpBatchWorkflowId(workflowId)?.batchId ?? workflowId;
}
