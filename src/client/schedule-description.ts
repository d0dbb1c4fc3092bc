import type {
  CalendarSpecDescription,
  ScheduleDescription as TemporalDescription,
  ScheduleOverlapPolicy,
  ScheduleSpec,
} from '@temporalio/client';
import { type FollowUpBatchInput, parseFollowUpBatchWorkflowId } from '../contract/index.js';
import { batchItemsOf, parseUncheckedBatchInput } from '../contract/batch-input.js';
import type { ScheduleOverlap } from '../contract/choices.js';
import type { ScheduleSettings } from './schedule-input.js';

/** When a schedule fires. Somebody may have changed it in Temporal, so it need not be what `create` can make. */
export interface ScheduleTimes {
  /** The expression it was created with. */
  cron?: string;
  /** Times of the calendar, as the server took them from the expression. */
  calendars: CalendarTimes[];
  intervals: { everyMs: number; offsetMs: number }[];
  /** Of the calendars. */
  timeZone: string;
  /** Each firing is late by a random time up to this one. */
  jitterMs: number;
  startAt?: string;
  endAt?: string;
}

/** Times that match in all of their fields; without a range every year does. */
export type CalendarTimes = Omit<CalendarSpecDescription, 'comment'>;

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
  /** `terminate-other` only where somebody set it in Temporal. */
  overlap: ScheduleOverlap | 'terminate-other';
  catchUpWindowMs: number;
  paused: boolean;
  note?: string;
  /** Of a pause by this library: since when, and why where somebody said so. */
  pause?: { since: string; note?: string };
  /** Firings that are left, where there is a limit. */
  remainingFirings?: number;
  /** Follow-ups in each firing, and of which projects. */
  followUps: number;
  projectIds: string[];
  taskQueue: string;
  /** At most 10; none where it is done, or its limit is used up. */
  nextFirings: string[];
  /** Newest first, at most 10. */
  recentFirings: Firing[];
  /** Batches that run now. With overlap `allow-all` Temporal knows one at most. */
  runningBatchIds: string[];
  /** Firings that wait for the one that runs. */
  buffered: number;
  counts: {
    fired: number;
    /** Left out because the one before was still running. */
    skipped: number;
    /** Left out because Temporal was away for longer than the catch-up window. */
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

/** Temporal's form of the times. The expression is its own comment, with which the server gives it back. */
export function toScheduleSpec(settings: ScheduleSettings): ScheduleSpec {
  const { cron, every, offset, timeZone, jitter, startAt, endAt } = settings;
  return {
    ...(cron !== undefined && { cronExpressions: [`${cron} # ${cron}`] }),
    ...(every !== undefined && { intervals: [{ every, offset: offset ?? 0 }] }),
    ...(timeZone !== undefined && { timezone: timeZone }),
    ...(startAt !== undefined && { startAt: new Date(startAt) }),
    ...(endAt !== undefined && { endAt: new Date(endAt) }),
    jitter: jitter ?? 0,
  };
}

/** Stands for the note of a resumed schedule that has none: the server takes no empty one. */
export const RESUMED = 'resumed';

const PAUSE_NOTE =
  /^(?:([\s\S]*) \| )?paused since (\d{4}-[\d:T-]+Z)(?:: ([\s\S]*?))?(?:; follow-up schedule resume \S+)?$/;

/** Temporal keeps one note a schedule: that of a pause stands behind the schedule's own, and says how it ends. */
export function pauseNote(
  name: string,
  { own, since, note }: { own: string | undefined; since: Date; note: string | undefined },
): string {
  const why = note === undefined ? '' : `: ${note}`;
  const pause = `paused since ${since.toISOString().slice(0, 19)}Z${why}; follow-up schedule resume ${name}`;
  return own === undefined ? pause : `${own} | ${pause}`;
}

/** A schedule's own note, and what {@link pauseNote} has put behind it. */
export function parseNote(text: string | undefined, isPaused = true): Pick<ScheduleDescription, 'note' | 'pause'> {
  const [isPause, own, since = '', why] = PAUSE_NOTE.exec(text ?? '') ?? [];
  const note = isPause === undefined ? text : own;
  return {
    ...(note !== undefined && note !== '' && note !== RESUMED && { note }),
    ...(isPaused && isPause !== undefined && { pause: { since, ...(why !== undefined && { note: why }) } }),
  };
}

/** This library's form of what Temporal says of a schedule. */
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
    ...(remainingActions !== undefined && { remainingFirings: remainingActions }),
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
    ...(info.lastUpdatedAt && { updatedAt: info.lastUpdatedAt.toISOString() }),
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
    ...(startAt && { startAt: startAt.toISOString() }),
    ...(endAt && { endAt: endAt.toISOString() }),
  };
}

function toCalendar(calendar: CalendarSpecDescription): CalendarTimes {
  const { second, minute, hour, dayOfMonth, month, year, dayOfWeek } = calendar;
  return { second, minute, hour, dayOfMonth, month, year, dayOfWeek };
}

/** What a firing's batch is made of; nothing where somebody gave it an input that is none. */
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

/** Of a batch that is not one of ours, its workflow id. */
function batchIdOf(workflowId: string): string {
  return parseFollowUpBatchWorkflowId(workflowId)?.batchId ?? workflowId;
}
