import type { Board, BoardProject } from './board.js';
import { stateOf } from './budget-text.js';
import type { Check } from './doctor-check.js';
import { clock } from './follow-up-text.js';
import { cutLines } from './live-view.js';
import { formatDuration } from '../contract/index.js';
import { safeLine } from './safe-text.js';

const HEADER = ['project', 'used', 'waiting', 'batch', 'for job', 'unknown', 'next slot', 'state'];
/** Columns of counts, which stand at the right. */
const COUNTS = [2, 3, 4, 5];
/** Lines of one that waits for a person: what, and what to do. */
const LINES_OF_NEED = 2;

/**
 * A board for people. Clock times are local.
 *
 * @param rows lines that may be shown; where they do not suffice, at least half of them are for what waits for a person
 */
export function describeBoard(board: Board, now = new Date(), rows = Infinity): string {
  const { address, namespace, asOf, trouble, projects, projectsAsOf, needs } = board;
  const known = asOf === undefined ? 'nothing is known yet' : `as of ${clock(asOf, now)}`;
  const head = [`Temporal ${address}, namespace ${namespace}: ${known}`];
  if (trouble !== undefined) head.push(safeLine(trouble));
  if (projectsAsOf !== undefined && projects.length > 0) head.push(`projects as of ${clock(projectsAsOf, now)}:`);
  const table = tableOf(projects, board, now);
  const verdict = verdictOf(board);
  // Two blank lines stand between the three.
  const room = Math.max(0, rows - head.length - 3);
  const forNeeds = Math.min(needs.length * LINES_OF_NEED, Math.max(Math.floor(room / 2), room - table.length));
  const needLines = needs.flatMap((need) => linesOf(need, now));
  return [
    ...head,
    '',
    ...cutLines(table, Math.max(2, room - forNeeds)),
    '',
    verdict,
    ...cutLines(needLines, Math.max(LINES_OF_NEED, forNeeds)),
  ].join('\n');
}

function verdictOf({ needs, isPartial, asOf }: Board): string {
  if (asOf === undefined) return '';
  if (needs.length === 0) return 'nothing needs attention';
  return `${needs.length}${isPartial ? ' or more' : ''} ${needs.length === 1 ? 'needs' : 'need'} attention:`;
}

function tableOf(projects: readonly BoardProject[], { asOf, trouble }: Board, now: Date): string[] {
  if (projects.length === 0) {
    const isKnown = asOf !== undefined && trouble === undefined;
    return [isKnown ? 'no project has a budget yet; its first follow-up creates it' : 'projects: not known'];
  }
  const rows = [HEADER, ...projects.map((project) => rowOf(project, now))];
  const widths = HEADER.map((_, column) => Math.max(...rows.map((cells) => (cells[column] ?? '').length)));
  return rows.map((cells) =>
    cells
      .map((cell, column) =>
        COUNTS.includes(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd(),
  );
}

function rowOf({ projectId, status, statusUnavailable, unknown }: BoardProject, now: Date): string[] {
  if (!status) {
    const state = safeLine(`does not answer: ${statusUnavailable ?? ''}`);
    return [projectId, '?', '?', '?', '?', String(unknown), '?', state];
  }
  const { used, limit, windowMs, waitingTotal, waitingInBatchLane, waitingForJob } = status;
  return [
    projectId,
    `${used} of ${limit} in ${formatDuration(windowMs)}`,
    String(waitingTotal - waitingInBatchLane),
    String(waitingInBatchLane),
    String(waitingForJob),
    String(unknown),
    nextSlotOf(status, now),
    safeLine(stateOf(status, now)),
  ];
}

function nextSlotOf({ used, limit, nextFreeSlotAt, paused }: NonNullable<BoardProject['status']>, now: Date): string {
  if (paused || limit === 0 || used > limit) return '-';
  if (used < limit || nextFreeSlotAt === undefined) return 'now';
  return clock(nextFreeSlotAt, now);
}

function linesOf({ message, since, mend }: Check, now: Date): string[] {
  const begin = since === undefined ? '' : ` (since ${clock(since, now)})`;
  return [`  ${safeLine(message)}${begin}`, `    -> ${safeLine(mend ?? '')}`];
}
