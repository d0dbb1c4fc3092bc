import { existsSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { type Environment, processEnvironment } from '../config/settings-reader.js';
import { maskSecrets } from '../secrets.js';
import { plainText, safeJson, safeLine } from '../terminal-text.js';

/** Exit codes of the command line. */
export const ExitCode = {
  /** The agent job was completed or archived, or the command did what it was asked to. */
  ok: 0,
  /** Something else went wrong, such as a worker that does not answer. */
  error: 1,
  /** Wrong usage, input or setting. */
  usage: 2,
  /** The follow-up has its result: the agent job failed. */
  jobFailed: 3,
  /** The follow-up failed or was cancelled. */
  followUpFailed: 4,
  /** Temporal cannot be reached. */
  unreachable: 5,
  /** Ended by Ctrl-C, SIGTERM or SIGHUP; started follow-ups continue in Temporal. */
  interrupted: 130,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/** The arguments are wrong in a way that only the command itself can detect. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly type = 'Usage';
  readonly exitCode = ExitCode.usage;
}

/** Ended by Ctrl-C, SIGTERM or SIGHUP. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  readonly type = 'Interrupted';
  readonly exitCode = ExitCode.interrupted;
  /** The follow-up that continues, if there is one. */
  workflowId?: string;

  constructor(readonly signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`);
  }
}

/** An output stream. Only a terminal has a size. */
type OutputStream = Writable & { isTTY?: boolean; columns?: number; rows?: number };

/** The surroundings of the command line: this process and its terminal, or those of a test. */
export interface CliIo {
  env: Environment;
  stdin: Readable;
  stdout: OutputStream;
  stderr: OutputStream;
  /**
   * Calls the listener at every SIGINT, SIGTERM and SIGHUP.
   *
   * @returns stops that
   */
  onSignal(listener: (signal: NodeJS.Signals) => void): () => void;
  /** The command's name in hints. @default 'follow-up' */
  command?: string;
  /** Ends the process at once. */
  exit(code: ExitCode): void;
}

/** What every command receives. */
export interface Cli {
  io: CliIo;
  env: Environment;
  output: Output;
  /** Exit code of the command. */
  exitCode: ExitCode;
  /** Resolves when the workflow bundle is built. Set only while a checkout builds it. */
  bundled?: Promise<void> | undefined;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** This process. */
export function processIo(): CliIo {
  return {
    env: processEnvironment(),
    // The getter of `process` opens the stream.
    get stdin() {
      return process.stdin;
    },
    stdout: process.stdout,
    stderr: process.stderr,
    onSignal: (listener) => {
      for (const name of SIGNALS) process.on(name, listener);
      return () => {
        for (const name of SIGNALS) process.off(name, listener);
      };
    },
    command: commandName(),
    exit: (code) => process.exit(code),
  };
}

/** Only a checkout has sources. Neither a checkout nor npx puts the command on the PATH. */
function commandName(): string {
  const isCheckout = existsSync(new URL('../../src', import.meta.url));
  return isCheckout || processEnvironment()['npm_command'] === 'exec' ? 'npx follow-up' : 'follow-up';
}

/** How a list is written. */
interface ListView<T> {
  /** Headings of the columns, and their widths. */
  columns: Record<string, number>;
  /** The cells of an item. */
  row: (item: T) => readonly string[];
  /** Said instead of an empty list. */
  none: string;
  /** @default the item itself */
  document?: (item: T) => unknown;
}

/**
 * The output of a command: data to stdout, as text or, with `--json`, as JSON; everything else to stderr. Control
 * characters and secrets never get through. Commands in texts, such as `follow-up doctor`, are written the way the
 * command line was called; JSON is unchanged.
 */
export class Output {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly #command: string;
  /** Names of the commands that may occur in texts. */
  commandNames: readonly string[] = [];
  /** What a live display shows at present. Notes go above it. */
  frame?: { erase(): void; draw(): void } | undefined;

  constructor(
    { stdout, stderr, command = 'follow-up' }: Pick<CliIo, 'stdout' | 'stderr' | 'command'>,
    /** Whether data is JSON. Set again once the arguments are parsed. */
    public json: boolean,
  ) {
    this.stdout = stdout;
    this.stderr = stderr;
    this.#command = command;
  }

  /**
   * Writes the command's data: the only document, or one of several.
   *
   * @param mask hides secrets. The simulator's key is public, and shown even where the settings hold it
   */
  data(value: unknown, text: string, mask = maskSecrets): void {
    this.stdout.write(`${mask(this.json ? safeJson(value) : plainText(this.hint(text)))}\n`);
  }

  /** Writes a list: a table, or with `--json` a document per item. */
  async list<T>(
    items: AsyncIterable<T> | Iterable<T>,
    { columns, row, none, document = (item) => item }: ListView<T>,
  ): Promise<void> {
    const widths = Object.values(columns);
    const line = (cells: readonly string[]) =>
      cells.map((cell, at) => safeLine(cell).padEnd(widths[at] ?? 0)).join('  ');
    let isEmpty = true;
    for await (const item of items) {
      if (isEmpty && !this.json) this.data(undefined, line(Object.keys(columns)).trimEnd());
      this.data(document(item), line(row(item)).trimEnd());
      isEmpty = false;
    }
    if (isEmpty) this.note(none);
  }

  /** Writes a line for people: progress, hints, warnings. */
  note(text: string): void {
    this.frame?.erase();
    this.stderr.write(`${maskSecrets(plainText(this.hint(text)))}\n`);
    this.frame?.draw();
  }

  /** The text with its commands written the way the command line was called. */
  hint(text: string): string {
    if (this.#command === 'follow-up' || this.commandNames.length === 0) return text;
    const command = new RegExp(`(?<![\\w/-]|npx )follow-up (?=(?:${this.commandNames.join('|')})\\b)`, 'g');
    return text.replace(command, `${this.#command} `);
  }
}

/** Whether a stream can show a live display. A terminal without a known size (0 rows) would show nothing. */
export function isLive(stream: OutputStream): stream is NodeJS.WriteStream {
  return stream.isTTY === true && (stream.rows ?? 0) > 0;
}

/** Signals within this time count as one. */
const REPEAT_AFTER_MS = 1_000;

/**
 * Runs work that Ctrl-C, SIGTERM and SIGHUP interrupt: the first aborts the signal with an {@link InterruptedError},
 * the second ends the process at once.
 */
export async function interruptible<T>({ io }: Cli, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  let firstMs = 0;
  const ignore = io.onSignal((signal) => {
    if (controller.signal.aborted) {
      // A second request must not wait for anything. npm forwards a Ctrl-C that the terminal has already sent us.
      if (performance.now() - firstMs > REPEAT_AFTER_MS) io.exit(ExitCode.interrupted);
      return;
    }
    firstMs = performance.now();
    controller.abort(new InterruptedError(signal));
  });
  try {
    return await work(controller.signal);
  } finally {
    ignore();
  }
}
