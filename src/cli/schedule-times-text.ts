import { DAYS_OF_WEEK, MONTHS } from '@temporalio/client';
import type { ScheduleTimes } from '../client/index.js';
import { formatDuration } from '../contract/index.js';
import { safeLine } from './safe-text.js';

type Calendar = ScheduleTimes['calendars'][number];
type Ranges = readonly { start: number | string; end: number | string; step: number }[];

/** More single times of day than that are told by their fields. */
const MAX_TIMES_OF_DAY = 6;

/** When a schedule fires, in words: `at 02:00 on Monday to Friday, Europe/Berlin`. */
export function describeTimes(times: ScheduleTimes): string {
  const { calendars, intervals, timeZone, cron, jitterMs, startAt, endAt } = times;
  const parts = [
    ...calendars.map((calendar) => `${describeCalendar(calendar)}, ${safeLine(timeZone)}`),
    ...intervals.map(({ everyMs, offsetMs }) =>
      [`every ${formatDuration(everyMs)}`, offsetMs > 0 ? `${formatDuration(offsetMs)} after its begin` : '']
        .filter(Boolean)
        .join(', '),
    ),
  ];
  return [
    parts.length > 0 ? parts.join('; and ') : 'never',
    cron === undefined ? '' : ` (cron ${safeLine(cron)})`,
    jitterMs > 0 ? `, up to ${formatDuration(jitterMs)} late` : '',
    startAt === undefined ? '' : `, not before ${startAt}`,
    endAt === undefined ? '' : `, not after ${endAt}`,
  ].join('');
}

/** An instant by the clock of a schedule's time zone: `2026-11-22 02:00:00`. */
export function inZone(instant: string, timeZone: string): string {
  const date = new Date(instant);
  try {
    // Sweden writes dates as ISO 8601 does.
    return new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' }).format(date);
  } catch {
    // A zone that this machine does not know.
    return instant;
  }
}

function describeCalendar(calendar: Calendar): string {
  const { dayOfMonth, month, year, dayOfWeek } = calendar;
  const days = [
    isAll(dayOfWeek, 7) ? '' : `on ${describeRanges(dayOfWeek)}`,
    isAll(dayOfMonth, 31) ? '' : `on day ${describeRanges(dayOfMonth)} of the month`,
    isAll(month, 12) ? '' : `in ${describeRanges(month)}`,
    year.length === 0 ? '' : `in ${describeRanges(year)}`,
  ].filter(Boolean);
  const time = describeTimeOfDay(calendar);
  return [time, days.length > 0 ? days.join(' ') : /^at \d/.test(time) ? 'every day' : ''].filter(Boolean).join(' ');
}

function describeTimeOfDay({ hour, minute, second }: Calendar): string {
  const [hours, minutes, seconds] = [numbersOf(hour), numbersOf(minute), numbersOf(second)];
  if (hours.length * minutes.length * seconds.length <= MAX_TIMES_OF_DAY) {
    const times = hours.flatMap((h) => minutes.flatMap((m) => seconds.map((s) => timeOfDay(h, m, s))));
    return `at ${times.join(', ')}`;
  }
  const isOnTheMinute = seconds.length === 1 && seconds[0] === 0;
  return [
    isOnTheMinute ? '' : `at second ${describeRanges(second)} of`,
    isAll(minute, 60) ? 'each minute' : `at minute ${describeRanges(minute)}`,
    isAll(hour, 24) ? 'of each hour' : `of hour ${describeRanges(hour)}`,
  ]
    .filter(Boolean)
    .join(' ');
}

function timeOfDay(...parts: [hour: number, minute: number, second: number]): string {
  const [hour, minute, second] = parts.map((part) => String(part).padStart(2, '0'));
  return second === '00' ? `${hour}:${minute}` : `${hour}:${minute}:${second}`;
}

/** Whether the ranges have all of a field's values. */
function isAll(ranges: Ranges, count: number): boolean {
  return new Set(numbersOf(ranges)).size >= count;
}

/** Single values; days and months as their place in the week and in the year. */
function numbersOf(ranges: Ranges): number[] {
  return ranges.flatMap(({ start, end, step }) => {
    const [first, last] = [toNumber(start), toNumber(end)];
    return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, index) => first + index * step);
  });
}

function toNumber(value: number | string): number {
  if (typeof value === 'number') return value;
  return Math.max(
    DAYS_OF_WEEK.findIndex((day) => day === value),
    MONTHS.findIndex((month) => month === value),
  );
}

/** `1, 15`, `8 to 17`, `0 to 59 by 15`, `Monday to Friday`. */
function describeRanges(ranges: Ranges): string {
  return ranges
    .map(({ start, end, step }) => {
      if (start === end) return toWord(start);
      return `${toWord(start)} to ${toWord(end)}${step > 1 ? ` by ${step}` : ''}`;
    })
    .join(', ');
}

/** `MONDAY` as `Monday`. */
function toWord(value: number | string): string {
  return typeof value === 'number' ? String(value) : value.slice(0, 1) + value.slice(1).toLowerCase();
}
