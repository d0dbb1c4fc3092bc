import type { WorkflowTrouble } from '../client/index.js';
import type { Description, Row } from '../common/index.js';
import { safeLine } from '../node/terminal-text.js';

/** Formats rows of a name and a text, without empty ones. A row without a name continues the previous one. */
export function rowsOf(rows: readonly Row[]): string[] {
  const shown = rows.flatMap(([name, text]) => (text ? [[name, text] as const] : []));
  const width = Math.max(...shown.map(([name]) => name.length)) + 2;
  return shown.map(([name, text]) => `${name.padEnd(width)}${text}`);
}

/** Converts a text of a description to one line, without the marks of Markdown. */
export function plain(text: string): string {
  return safeLine(text.replace(/`([^`]*)`|<(https?:[^>]*)>/g, '$1$2'));
}

/** Formats the facts for a live display in one line. */
export function toLine({ live = [] }: Description): string {
  return live.flatMap(([name, text]) => (text ? `${name} ${plain(text)}` : [])).join(', ');
}

/** Formats the state and the facts for a live display in one line. */
export function toSummary(description: Description): string {
  return [plain(description.headline), toLine(description)].filter(Boolean).join(', ');
}

/** Formats a description for a terminal. */
export function toLines({ headline, rows, nextSteps, lists = [] }: Description): string[] {
  const steps = nextSteps.map((step, index): Row => [index === 0 ? 'to do' : '', step]);
  return [
    plain(headline),
    ...rowsOf([...rows, ...steps].map(([name, text]) => [name, text && plain(text)])),
    ...lists.flatMap(([title, items]) =>
      items.length > 0 ? ['', title, ...items.map((item) => `  ${plain(item)}`)] : [],
    ),
  ];
}

/** `1 item`, `2 items` */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

export function formatTrouble({ workflowId, what, fix }: WorkflowTrouble): string {
  return `${safeLine(`${workflowId} ${what}`)}\n  -> ${safeLine(fix)}`;
}

/** Local time of day with its offset, with the date unless it is today. */
export function clock(instant: string, now = new Date()): string {
  const date = new Date(instant);
  if (Number.isNaN(date.getTime())) return safeLine(instant);
  const [day, time] = localParts(date);
  return day === localParts(now)[0] ? time : `${day} ${time}`;
}

/** Local date and time with its offset: `2026-11-22 14:05:09 +01:00`. */
export function localTime(instant: string): string {
  const date = new Date(instant);
  return Number.isNaN(date.getTime()) ? safeLine(instant) : localParts(date).join(' ');
}

function localParts(date: Date): [day: string, time: string] {
  const offsetMin = -date.getTimezoneOffset();
  const local = new Date(date.getTime() + offsetMin * 60_000).toISOString();
  const two = (count: number) => String(Math.floor(count)).padStart(2, '0');
  const offset = `${offsetMin < 0 ? '-' : '+'}${two(Math.abs(offsetMin) / 60)}:${two(Math.abs(offsetMin) % 60)}`;
  return [local.slice(0, 10), `${local.slice(11, 19)} ${offset}`];
}
