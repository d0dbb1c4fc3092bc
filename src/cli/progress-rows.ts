import { messageOf } from '../common/index.js';
import { plainText, safeLine } from '../node/terminal-text.js';
import { maskSecrets } from '../secrets/secrets.js';
import { InterruptedError, isLive, type Output } from './cli.js';

export interface ProgressText {
  /** State, place in the queue, job status, last error: a change deserves a new line. */
  headline: string;
  /** Times and counts, which change constantly. */
  timing: string;
}

export interface ProgressRow<T> {
  label: string;
  work: (report: (progress: ProgressText) => void) => Promise<T>;
  /** The row's last line. A failed row shows its error, but only on a live display: the caller reports it. */
  summarise: (result: T) => string;
  /** Whether a result is a failure. @default no result is */
  isFailure?: (result: T) => boolean;
}

/**
 * Runs the work of all rows concurrently and shows its progress on stderr: live on a terminal, otherwise one line per
 * change.
 *
 * @returns the result of each row
 */
export async function showProgress<T>(
  output: Output,
  rows: readonly ProgressRow<T>[],
): Promise<PromiseSettledResult<T>[]> {
  const { stderr } = output;
  const draw = isLive(stderr) ? drawOn(output, stderr) : undefined;
  const lines = rows.map(({ label }) => [`- ${label}`]);
  const show = async ({ label, work, summarise, isFailure }: ProgressRow<T>, index: number) => {
    let shown: string | undefined;
    const say = (headline: string, timing = '', mark = '-') => {
      if (draw) {
        lines[index] = [`${mark} ${label}: ${safeLine(headline)}`, ...(timing ? [`    ${safeLine(timing)}`] : [])];
        draw(lines.flat());
      } else if (headline !== shown)
        output.note(`${label}: ${safeLine(headline)}${timing ? ` (${safeLine(timing)})` : ''}`);
      shown = headline;
    };
    try {
      const result = await work(({ headline, timing }) => say(headline, timing));
      say(summarise(result), '', isFailure?.(result) ? '✖' : '✔');
      return result;
    } catch (error) {
      if (draw) say(messageOf(error), '', error instanceof InterruptedError ? '-' : '✖');
      throw error;
    }
  };
  const ended = await Promise.allSettled(rows.map(show));
  output.frame = undefined;
  return ended;
}

/** Shows a single row, and returns or throws the result of its work. */
export async function showRow<T>(output: Output, row: ProgressRow<T>): Promise<T> {
  const [ended] = await showProgress(output, [row]);
  if (ended?.status === 'fulfilled') return ended.value;
  throw ended?.reason;
}

/** Shows the latest update on a terminal, redrawn in place, until the updates end. */
export async function showLive<T>(
  output: Output,
  terminal: NodeJS.WriteStream,
  updates: AsyncIterable<T>,
  describe: (update: T) => string,
): Promise<void> {
  const draw = drawOn(output, terminal);
  try {
    for await (const update of updates) draw(describe(update).split('\n'));
  } finally {
    output.frame = undefined;
  }
}

/** Returns a function that draws a frame over the previous one in a single write, line by line, to avoid flicker. */
function drawOn(output: Output, terminal: NodeJS.WriteStream): (lines: readonly string[]) => void {
  let [shown, height] = ['', 0];
  let latest: readonly string[] = [];
  const up = () => (height > 0 ? `\u001b[${height}A` : '');
  const draw = (lines: readonly string[]) => {
    latest = lines;
    const fitting = fitFrame(
      lines.map((line) => maskSecrets(plainText(output.hint(line)))),
      terminal.columns || 80,
      terminal.rows,
    );
    const frame = fitting.map((line) => `${line}\u001b[K\n`).join('');
    if (frame !== shown) terminal.write(`${up()}${frame}\u001b[J`);
    [shown, height] = [frame, fitting.length];
  };
  const erase = () => {
    terminal.write(`${up()}\u001b[J`);
    [shown, height] = ['', 0];
  };
  output.frame = { erase, draw: () => draw(latest) };
  return draw;
}

/** Cuts lines to the size of a terminal: none wraps, and the last row stays free for the cursor. */
export function fitFrame(lines: readonly string[], columns: number, rows: number): string[] {
  const maxLines = Math.max(1, rows - 1);
  const more = lines.length - maxLines;
  const kept = more > 0 ? [...lines.slice(0, maxLines - 1), `… ${more + 1} more lines`] : lines;
  return kept.map((line) => {
    const characters = Array.from(line);
    return characters.length <= columns ? line : `${characters.slice(0, Math.max(0, columns - 1)).join('')}…`;
  });
}
