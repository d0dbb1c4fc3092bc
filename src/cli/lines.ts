import type { WorkflowTrouble } from '../client/index.js';
import type { Description, Row } from '../common/index.js';
import { safeLine } from '../node/terminal-text.js';

/** Formats rows of a name and a text, without empty ones. A row without a name continues the previous one. */
export function rowsOf(rows: readonly Row[]): string[] {
  const shown = rows.flatMap(([name, text]) => (text ? [[name, text] as const] : []));
  const width = Math.max(...shown.map(([name]) => name.length)) + 2;
  return shown.map(([name, text]) => `${name.padEnd(width)}${text}`);
}

/**
 * Aligns rows of cells, the first of which are the columns' names. From the first column that does not fit beside the
 * others on, each cell stands on a line of its own, so that nothing is cut.
 *
 * @param width in characters; default: no limit
 */
export function tableOf(rows: readonly (readonly string[])[], width = Infinity): string[] {
  const widths: number[] = [];
  for (const cells of rows) cells.forEach((cell, at) => (widths[at] = Math.max(widths[at] ?? 0, cell.length)));
  const fits = (count: number) => widths.slice(0, count).reduce((sum, each) => sum + each + 2, -2) <= width;
  let beside = 1;
  while (beside < widths.length && fits(beside + 1)) beside += 1;
  return rows.flatMap((cells) => {
    const aligned = cells.slice(0, beside).map((cell, at) => cell.padEnd(widths[at] ?? 0));
    const others = cells.slice(beside).filter(Boolean);
    return [aligned.join('  ').trimEnd(), ...others.map((cell) => `  ${cell}`)];
  });
}

/** A word, or a command up to punctuation, with the spaces before it. */
const UNIT = / *(?:(?:-> |["(])?(?:[A-Z_]+=\S+ )*(?:npx )?(?:follow-up|temporal) (?:\S*[^\s,;:)"] )*\S+|\S+)/g;

/**
 * Breaks long lines between words, and continues them below the text of their last column. A command is never broken:
 * one that does not fit begins a line.
 *
 * @param width in characters; default: no limit
 */
export function fold(text: string, width = Infinity): string {
  const foldLine = (line: string): string => {
    const column = line.lastIndexOf('  ') + 2;
    const indent = ' '.repeat(column <= width / 2 ? Math.max(2, column) : 2);
    let usedWidth = 0;
    return line.replace(UNIT, (unit) => {
      const isFirst = usedWidth === 0;
      usedWidth += unit.length;
      if (isFirst || usedWidth <= width) return unit;
      const text = indent + unit.trimStart();
      usedWidth = text.length;
      return `\n${text}`;
    });
  };
  return text.split('\n').map(foldLine).join('\n');
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
