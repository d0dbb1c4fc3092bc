import type { FiringOutcome, ScheduleDescription, ScheduleTimes, TriggeredFiring } from '../client/index.js';
import { formatDuration } from '../contract/index.js';
import { safeLine } from '../terminal-text.js';
import { clock } from './follow-up-text.js';

const SHOWN_NEXT = 5;
const SHOWN_PROJECTS = 5;

const OVERLAP_TEXT: Record<ScheduleDescription['overlap'], string> = {
  skip: 'a firing is skipped while the previous one still runs',
  'buffer-one': 'one firing waits for the previous one to end, further ones are skipped',
  'buffer-all': 'firings wait for the previous one to end, and run one after another',
  'cancel-other': 'the previous firing is cancelled, with everything not yet sent, and then the new one starts',
  'allow-all': 'a firing starts even if the previous one still runs',
  'terminate-other': 'the previous firing is terminated; its follow-ups continue unwatched',
};

/** An overlap policy for people. */
export function describeOverlap(overlap: ScheduleDescription['overlap']): string {
  return `${overlap}: ${OVERLAP_TEXT[overlap]}`;
}

/** A schedule and its latest firings for people. */
export function describeScheduleText(schedule: ScheduleDescription, firings: readonly FiringOutcome[]): string {
  const { name, note, times, overlap, catchUpWindowMs, remainingFirings, counts, buffered } = schedule;
  const lines: [name: string, text: string][] = [
    ['schedule', `${name}${pauseText(schedule, ', ')}`],
    ['note', note === undefined ? '' : safeLine(note)],
    ['fires', describeTimes(times)],
    ['batch', describeBatchOf(schedule)],
    ['overlap', describeOverlap(overlap)],
    [
      'catch-up',
      `${formatDuration(catchUpWindowMs)}: a firing that an outage of Temporal delayed for longer is skipped`,
    ],
    [
      'left',
      remainingFirings === undefined ? '' : `${remainingFirings} ${remainingFirings === 1 ? 'firing' : 'firings'}`,
    ],
    ['so far', `${counts.fired} fired, ${counts.skipped} skipped by the overlap policy, ${counts.missed} missed`],
    ['running', schedule.runningBatchIds.map(safeLine).join(', ')],
    ['waiting', buffered > 0 ? `${buffered} for the one that runs` : ''],
  ];
  return [
    ...lines.filter(([, text]) => text !== '').map(([label, text]) => `${label.padEnd(10)}${text}`),
    ...nextLines(schedule),
    ...(firings.length > 0 ? ['latest firings:', ...firings.map(describeFiring)] : ['has not fired yet']),
  ].join('\n');
}

/** A schedule in a list: one line, and one per latest firing. */
export function summariseSchedule(schedule: ScheduleDescription, firings: readonly FiringOutcome[]): string {
  const { name, note, times, counts } = schedule;
  const parts = [
    name.padEnd(20),
    standingOf(schedule),
    describeTimes(times),
    counts.skipped > 0 ? `${counts.skipped} skipped by the overlap policy` : '',
    note === undefined ? '' : `"${safeLine(note)}"`,
  ];
  return [parts.filter(Boolean).join('  '), ...firings.map(describeFiring)].join('\n');
}

/** One firing, indented. */
function describeFiring({ batchId, startedAt, status, cancelled, counts, countsUnavailable }: FiringOutcome): string {
  const standing = cancelled ? 'cancelled' : status === 'unknown' ? 'not known' : status;
  const text = counts ? countsText(counts) : (countsUnavailable ?? '');
  return `  ${safeLine(batchId)}  started ${clock(startedAt)}  ${standing.padEnd(9)}  ${text}`.trimEnd();
}

/** The outcome of a trigger. */
export function describeTrigger(name: string, { outcome, batchId }: TriggeredFiring): string {
  switch (outcome) {
    case 'started':
      return `started batch ${batchId}`;
    case 'skipped':
      return `nothing was started: a batch of ${name} is still running, and the overlap policy skips this firing`;
    case 'buffered':
      return `batch ${batchId} starts when the running one has ended`;
    case 'accepted':
      return `Temporal has accepted the trigger for batch ${batchId}, but has not started it yet`;
  }
}

function pauseText({ paused, pause }: ScheduleDescription, before: string): string {
  if (!paused) return '';
  const since = pause === undefined ? '' : ` since ${clock(pause.since)}`;
  return `${before}paused${since}${pause?.note === undefined ? '' : ` (${safeLine(pause.note)})`}`;
}

function countsText({
  total,
  completed,
  archived,
  failed,
  errors,
  unknown,
}: NonNullable<FiringOutcome['counts']>): string {
  const ended = completed + archived + failed + errors;
  return [
    `${ended} of ${total} done: ${completed} completed`,
    archived > 0 ? `${archived} archived` : '',
    failed > 0 ? `${failed} failed` : '',
    errors > 0 ? `${errors} without a result${unknown > 0 ? `, ${unknown} of them may have been delivered` : ''}` : '',
  ]
    .filter(Boolean)
    .join(', ');
}

function describeBatchOf({ followUps, projectIds, taskQueue }: ScheduleDescription): string {
  const shown = projectIds.slice(0, SHOWN_PROJECTS).map(safeLine).join(', ');
  const more = projectIds.length - SHOWN_PROJECTS;
  const projects = `${shown}${more > 0 ? ` and ${more} more` : ''}`;
  return `${followUps} ${followUps === 1 ? 'follow-up' : 'follow-ups'} of ${projects || 'no project'}, task queue ${safeLine(taskQueue)}`;
}

function nextLines({ paused, nextFirings, times: { timeZone } }: ScheduleDescription): string[] {
  if (nextFirings.length === 0) return ['no further firings'];
  const next = nextFirings.slice(0, SHOWN_NEXT).map((at) => `  ${inZone(at, timeZone)} ${safeLine(timeZone)}`);
  return [paused ? 'next firings, once it is resumed:' : 'next firings:', ...next];
}

function standingOf(schedule: ScheduleDescription): string {
  const {
    nextFirings,
    times: { timeZone },
  } = schedule;
  const [next] = nextFirings;
  if (schedule.paused) return pauseText(schedule, '');
  return next === undefined ? 'done, no further firings' : `next ${inZone(next, timeZone)}`;
}

/** When a schedule fires: its cron expression or interval with its bounds, `cron 0 2 * * MON-FRI, Europe/Berlin`. */
export function describeTimes(times: ScheduleTimes): string {
  const { calendars, intervals, timeZone, cron, jitterMs, startAt, endAt } = times;
  const calendarText = cron === undefined ? 'a calendar set in Temporal' : `cron ${safeLine(cron)}`;
  const parts = [
    calendars.length > 0 ? `${calendarText}, ${safeLine(timeZone)}` : '',
    ...intervals.map(
      ({ everyMs, offsetMs }) =>
        `every ${formatDuration(everyMs)}${offsetMs > 0 ? `, offset ${formatDuration(offsetMs)}` : ''}`,
    ),
  ].filter(Boolean);
  return [
    parts.length > 0 ? parts.join('; and ') : 'never',
    jitterMs > 0 ? `, up to ${formatDuration(jitterMs)} late` : '',
    startAt === undefined ? '' : `, not before ${startAt}`,
    endAt === undefined ? '' : `, not after ${endAt}`,
  ].join('');
}

/** An instant by the clock of a schedule's time zone: `2026-11-22 02:00:00`. */
export function inZone(instant: string, timeZone: string): string {
  const date = new Date(instant);
  try {
    // Swedish dates look like ISO 8601.
    return new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' }).format(date);
  } catch {
    // This machine does not know the zone.
    return instant;
  }
}
