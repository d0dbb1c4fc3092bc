import type { ListrDefaultRendererLogLevels } from 'listr2';
import { isLive, type Output } from './cli.js';
import type { ProgressText } from './follow-up-text.js';
import { safeLine } from './safe-text.js';

/** One thing whose progress is shown. */
export interface ProgressRow {
  label: string;
  /** Runs it; what it resolves with is its last line, and a rejection is shown as a failure. */
  work: (report: (progress: ProgressText) => void) => Promise<string>;
}

/**
 * Runs all rows at once and shows how they go on stderr: live on a terminal, else a line whenever something is new.
 * Never rejects; what the rows themselves keep decides what comes next.
 */
export async function showProgress(output: Output, rows: readonly ProgressRow[]): Promise<void> {
  const { stderr } = output;
  if (isLive(stderr)) await showLive(output, stderr, rows);
  else await Promise.all(rows.map((row) => showLines(output, row)));
}

async function showLive(output: Output, stderr: NodeJS.WriteStream, rows: readonly ProgressRow[]): Promise<void> {
  const { DefaultRenderer, Listr, ListrLogger, ProcessOutput } = await import('listr2');
  // By itself listr2 asks whether stdout is a terminal, which may well be a pipe.
  class StderrRenderer extends DefaultRenderer {
    static override nonTTY = true;
  }
  // To listr2 stderr is its stdout: ours is for data.
  const logger = new ListrLogger<ListrDefaultRendererLogLevels>({
    useIcons: true,
    // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- it is written to, no more
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
        // listr2 writes the message as it stands, and the reason of a termination is anybody's text.
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
