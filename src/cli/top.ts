import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { InvalidInputError } from '../client/index.js';
import { durationSchema, parseInput } from '../contract/index.js';
import { type Board, readBoard, watchBoard } from './board.js';
import { describeBoard } from './board-text.js';
import { type Cli, interruptible, isLive, type Output } from './cli.js';
import { ExitCode } from './errors.js';
import { showLive } from './live-view.js';
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
  // On a terminal a word of the connection would stand in the middle of the board.
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
