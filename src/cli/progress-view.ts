import type { ListrDefaultRendererLogLevels } from 'listr2';
import type { FollowUpHandle } from '../client/index.js';
import type { FollowUpResult } from '../contract/index.js';
import { plainText, safeLine } from '../terminal-text.js';
import { isLive, type Output } from './cli.js';
import { describeUpdate, type ProgressText, summariseResult } from './follow-up-text.js';

/** A row of the progress display. */
export interface ProgressRow {
  label: string;
  /** Does the work; the resolved text is the row's last line, and a rejection is shown as a failure. */
  work: (report: (progress: ProgressText) => void) => Promise<string>;
}

/**
 * Runs all rows at once and shows their progress on stderr: live on a terminal, otherwise a line per change.
 * Never rejects: the rows keep their own outcomes.
 */
export async function showProgress(output: Output, rows: readonly ProgressRow[]): Promise<void> {
  const { stderr } = output;
  if (isLive(stderr)) await showRows(output, stderr, rows);
  else await Promise.all(rows.map((row) => showLines(output, row)));
}

async function showRows(output: Output, stderr: NodeJS.WriteStream, rows: readonly ProgressRow[]): Promise<void> {
  const { DefaultRenderer, Listr, ListrLogger, ProcessOutput } = await import('listr2');
  // By default listr2 checks whether stdout is a terminal, which may be a pipe.
  class StderrRenderer extends DefaultRenderer {
    static override nonTTY = true;
  }
  // listr2 gets stderr as its stdout, since stdout is for data.
  const logger = new ListrLogger<ListrDefaultRendererLogLevels>({
    useIcons: true,
    // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- it is only written to
    processOutput: new ProcessOutput(stderr, output.stdout as NodeJS.WriteStream),
  });
  const clean = (text: string) => safeLine(output.hint(text));
  const tasks = rows.map(({ label, work }) => ({
    title: label,
    task: async (_context: unknown, task: { title: string; output: string }) => {
      try {
        const last = await work(({ headline, timing }) => {
          task.title = clean(`${label}: ${headline}`);
          task.output = clean(timing);
        });
        task.title = clean(`${label}: ${last}`);
      } catch (error) {
        // listr2 prints the message verbatim, and the reason of a termination is arbitrary text.
        throw new Error(clean(messageOf(error)), { cause: error });
      }
    },
  }));
  await new Listr(tasks, {
    concurrent: true,
    exitOnError: false,
    registerSignalListeners: false,
    renderer: StderrRenderer,
    rendererOptions: { logger, collapseErrors: false },
  }).run();
}

async function showLines(output: Output, { label, work }: ProgressRow): Promise<void> {
  let shown: string | undefined;
  try {
    const last = await work(({ headline, timing }) => {
      if (headline === shown) return;
      shown = headline;
      output.note(`${label}: ${headline}${timing ? ` (${timing})` : ''}`);
    });
    output.note(`${label}: ${last}`);
  } catch (error) {
    output.note(`${label}: ${messageOf(error)}`);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A follow-up that is awaited. Its outcome is known once its row has been shown. */
interface AwaitedFollowUp {
  row: ProgressRow;
  /** @throws what `FollowUpHandle.result` throws, or the signal's reason */
  outcome: () => FollowUpResult;
}

/** Makes a row that shows the progress of a follow-up until it ends, or the signal is aborted. */
export function awaitFollowUp(label: string, followUp: FollowUpHandle, signal: AbortSignal): AwaitedFollowUp {
  let settled: { result: FollowUpResult } | { error: unknown } = { error: new Error('not waited for') };
  const wait = async (report: Parameters<ProgressRow['work']>[0]) => {
    for await (const update of followUp.watch({ signal })) report(describeUpdate(update));
    return followUp.result({ signal });
  };
  return {
    row: {
      label,
      work: async (report) => {
        try {
          const result = await wait(report);
          settled = { result };
          return summariseResult(result);
        } catch (error) {
          settled = { error };
          throw error;
        }
      },
    },
    outcome: () => {
      if ('error' in settled) throw settled.error;
      return settled.result;
    },
  };
}

const REDRAW_EVERY_MS = 1_000;

/**
 * Shows the latest update on a terminal until the updates end: redrawn in place with each update, and each
 * second because of countdowns.
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

/** Lines cut to fit a terminal of that size: none wraps, and the last row stays free for the cursor. */
export function fitFrame(lines: readonly string[], columns: number, rows: number): string[] {
  const fitting = lines.map((line) => {
    const characters = Array.from(line);
    return characters.length <= columns ? line : `${characters.slice(0, Math.max(0, columns - 1)).join('')}…`;
  });
  return cutLines(fitting, Math.max(1, rows - 1));
}

/** At most `most` lines; the last one tells how many are left out. */
export function cutLines(lines: readonly string[], most: number): string[] {
  if (lines.length <= most) return [...lines];
  return [...lines.slice(0, most - 1), `… ${lines.length - most + 1} more lines`];
}
