import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { InvalidInputError } from '../client/index.js';
import { durationSchema, formatDuration, parseInput } from '../contract/index.js';
import { safeLine } from '../terminal-text.js';
import { type Board, type BoardProject, readBoard, watchBoard } from './board.js';
import { stateOf } from './budget-text.js';
import { type Cli, ExitCode, interruptible, isLive, type Output } from './cli.js';
import type { Check } from './doctor-check.js';
import { clock } from './follow-up-text.js';
import { cutLines, showLive } from './progress-view.js';
import { type TemporalSession, withTemporal } from './temporal-session.js';

interface TopOptions {
  interval?: string;
}

const optionsSchema = z.object({ interval: durationSchema('500ms', '1h').default(2_000) });

/** `follow-up top` */
export async function showTop(cli: Cli, options: TopOptions): Promise<ExitCode> {
  const parsed = parseInput(optionsSchema, options);
  if (!parsed.ok) throw new InvalidInputError(parsed.issues);
  const intervalMs = parsed.value.interval;
  const { env, output } = cli;
  const { stdout, json } = output;
  const terminal = !json && isLive(stdout) ? stdout : undefined;
  if (!json && !terminal) return withTemporal(cli, (session) => showOnce(output, session));
  let hear: (text: string) => void = () => undefined;
  const silence = new Promise<string>((resolve) => (hear = resolve));
  // On a terminal a note of the connection would corrupt the board.
  const note = (text: string) => {
    if (json) output.note(text);
    hear(text);
  };
  return withTemporal({ env, output: { note } }, async (session) => {
    await interruptible(cli, async (signal) => {
      const boards = watchBoard(session, { intervalMs, signal, silence });
      if (terminal) await showLive(output, terminal, boards, (board, rows) => describeBoard(board, new Date(), rows));
      else await showChanges(output, boards);
    });
    return ExitCode.interrupted;
  });
}

async function showOnce(output: Output, session: TemporalSession): Promise<ExitCode> {
  const board = await readBoard(session);
  output.data(board, describeBoard(board));
  return board.trouble === undefined ? ExitCode.ok : ExitCode.error;
}

async function showChanges(output: Output, boards: AsyncIterable<Board>): Promise<void> {
  let last: Omit<Board, 'asOf'> | undefined;
  for await (const board of boards) {
    const { asOf: _asOf, ...rest } = board;
    if (isDeepStrictEqual(rest, last)) continue;
    last = rest;
    output.data(board, '');
  }
}

const HEADER = ['project', 'used', 'waiting', 'batch', 'for job', 'unknown', 'next slot', 'state'];
/** Columns of counts, which are right-aligned. */
const COUNTS = [2, 3, 4, 5];
/** Lines per need: what is wrong, and what to do. */
const LINES_OF_NEED = 2;

/**
 * A board for people. Clock times are local.
 *
 * @param rows most lines; if they do not suffice, at least half of them are for what waits for a person
 */
export function describeBoard(board: Board, now = new Date(), rows = Infinity): string {
  const { address, namespace, asOf, trouble, projects, projectsAsOf, needs } = board;
  const known = asOf === undefined ? 'nothing is known yet' : `as of ${clock(asOf, now)}`;
  const head = [`Temporal ${address}, namespace ${namespace}: ${known}`];
  if (trouble !== undefined) head.push(safeLine(trouble));
  if (projectsAsOf !== undefined && projects.length > 0) head.push(`projects as of ${clock(projectsAsOf, now)}:`);
  const table = tableOf(projects, board, now);
  const verdict = verdictOf(board);
  // Two blank lines separate the three blocks.
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

function linesOf({ message, since, fix }: Check, now: Date): string[] {
  const begin = since === undefined ? '' : ` (since ${clock(since, now)})`;
  return [`  ${safeLine(message)}${begin}`, `    -> ${safeLine(fix ?? '')}`];
}
