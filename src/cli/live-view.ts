import { plainText } from '../terminal-text.js';
import type { Output } from './cli.js';

const REDRAW_EVERY_MS = 1_000;

/**
 * Shows on a terminal what was seen last, until nothing more is seen: drawn in place, anew with each update, and each
 * second, because times are counted down.
 *
 * @param describe makes the text; `rows` is the number of lines that the terminal shows
 */
export async function showLive<T>(
  output: Output,
  terminal: NodeJS.WriteStream,
  updates: AsyncIterable<T>,
  describe: (update: T, rows: number) => string,
): Promise<void> {
  const { createLogUpdate } = await import('log-update');
  const render = createLogUpdate(terminal, { showCursor: true });
  let latest: { update: T } | undefined;
  const draw = () => {
    if (!latest) return;
    const { columns, rows } = terminal;
    const text = plainText(output.hint(describe(latest.update, rows - 1)));
    render(fitFrame(text.split('\n'), columns, rows).join('\n'));
  };
  const timer = setInterval(draw, REDRAW_EVERY_MS);
  try {
    for await (const update of updates) {
      latest = { update };
      draw();
    }
  } finally {
    clearInterval(timer);
    render.done();
  }
}

/** Lines that a terminal of that size shows whole: none wraps, and the last row stays free for the cursor. */
export function fitFrame(lines: readonly string[], columns: number, rows: number): string[] {
  const fitting = lines.map((line) => {
    const characters = Array.from(line);
    return characters.length <= columns ? line : `${characters.slice(0, Math.max(0, columns - 1)).join('')}…`;
  });
  return cutLines(fitting, Math.max(1, rows - 1));
}

/** Most lines that are shown. The last one says how many are left out. */
export function cutLines(lines: readonly string[], most: number): string[] {
  if (lines.length <= most) return [...lines];
  return [...lines.slice(0, most - 1), `… ${lines.length - most + 1} more lines`];
}
