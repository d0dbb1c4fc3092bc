import { clearScreenDown, cursorTo, moveCursor } from 'node:readline';
import type { BudgetUpdate } from '../client/index.js';
import { plainText } from '../terminal-text.js';
import { describeBudgetUpdate, summariseBudgetUpdate } from './budget-text.js';
import { isLive, type Output } from './cli.js';

const REDRAW_EVERY_MS = 1_000;

/**
 * Shows what a watch of a budget sees until it ends: redrawn in place on a terminal, else a line whenever something
 * changes; with `--json` a document a change.
 */
export async function showBudgetWatch(
  output: Output,
  projectId: string,
  updates: AsyncIterable<BudgetUpdate>,
): Promise<void> {
  const { json, stdout } = output;
  if (!json && isLive(stdout)) await showLive(stdout, projectId, updates);
  else await showLines(output, projectId, updates);
}

async function showLive(
  terminal: NodeJS.WriteStream,
  projectId: string,
  updates: AsyncIterable<BudgetUpdate>,
): Promise<void> {
  let latest: BudgetUpdate | undefined;
  let drawnLines = 0;
  const draw = () => {
    if (!latest) return;
    const text = plainText(describeBudgetUpdate(projectId, latest));
    const lines = fitFrame(text.split('\n'), terminal.columns, terminal.rows);
    moveCursor(terminal, 0, -drawnLines);
    cursorTo(terminal, 0);
    clearScreenDown(terminal);
    terminal.write(`${lines.join('\n')}\n`);
    drawnLines = lines.length;
  };
  // The times that are counted down change also while the budget does not.
  const timer = setInterval(draw, REDRAW_EVERY_MS);
  try {
    for await (const update of updates) {
      latest = update;
      draw();
    }
  } finally {
    clearInterval(timer);
  }
}

async function showLines(output: Output, projectId: string, updates: AsyncIterable<BudgetUpdate>): Promise<void> {
  let shown: string | undefined;
  for await (const update of updates) {
    const line = summariseBudgetUpdate(projectId, update);
    if (!output.json && line === shown) continue;
    shown = line;
    output.data({ projectId, ...update }, line);
  }
}

/** Lines that a terminal of that size shows whole: none wraps, and the last row stays free for the cursor. */
export function fitFrame(lines: readonly string[], columns: number, rows: number): string[] {
  const fitting = lines.map((line) => {
    const characters = Array.from(line);
    return characters.length <= columns ? line : `${characters.slice(0, Math.max(0, columns - 1)).join('')}…`;
  });
  const room = Math.max(1, rows - 1);
  if (fitting.length <= room) return fitting;
  return [...fitting.slice(0, room - 1), `… ${fitting.length - room + 1} more lines`];
}
