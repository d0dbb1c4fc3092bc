import { existsSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { type Environment, processEnvironment } from '../config/settings-reader.js';
import { plainText, safeJson, safeLine } from '../node/terminal-text.js';
import { maskSecrets } from '../secrets/secrets.js';
import { fold, tableOf } from './lines.js';

export const ExitCode = {
  /** The agent job was completed or archived, or the command succeeded. */
  ok: 0,
  /** Another error, such as a worker that does not answer. */
  error: 1,
  /** Wrong usage, input or setting. */
  usage: 2,
  /** The follow-up's result is a failed agent job. */
  jobFailed: 3,
  /** The follow-up failed or was cancelled. */
  followUpFailed: 4,
  /** Temporal cannot be reached. */
  unreachable: 5,
  /** Ended by Ctrl-C, SIGTERM or SIGHUP; started follow-ups continue in Temporal. */
  interrupted: 130,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/** Thrown for invalid arguments that only the command itself can detect. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly type = 'Usage';
  readonly exitCode = ExitCode.usage;
}

/** Thrown after Ctrl-C, SIGTERM or SIGHUP. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  readonly type = 'Interrupted';
  readonly exitCode = ExitCode.interrupted;
  workflowId?: string;

  constructor(readonly signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`);
  }
}

/** An output stream. Only a terminal has a size. */
type OutputStream = Writable & { isTTY?: boolean; columns?: number; rows?: number };

/** The environment of the command line: this process and its terminal, or those of a test. */
export interface CliIo {
  env: Environment;
  stdin: Readable;
  stdout: OutputStream;
  stderr: OutputStream;
  /** Calls the listener at every SIGINT, SIGTERM and SIGHUP, until the returned function is called. */
  onSignal(listener: (signal: NodeJS.Signals) => void): () => void;
  /** The command's name in hints. @default 'follow-up' */
  command?: string;
  exit(code: ExitCode): void;
}

export interface Cli {
  io: CliIo;
  env: Environment;
  output: Output;
  exitCode: ExitCode;
  /** Resolves when the workflow bundle is built. Only set while a checkout builds it. */
  bundled?: Promise<void> | undefined;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export function processIo(): CliIo {
  return {
    env: processEnvironment(),
    // The getter of `process` would open the stream.
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

/** Neither a checkout, which alone has sources, nor npx puts the command on the PATH. */
function commandName(): string {
  const isCheckout = existsSync(new URL('../../src', import.meta.url));
  return isCheckout || processEnvironment()['npm_command'] === 'exec' ? 'npx follow-up' : 'follow-up';
}

interface ListView<T> {
  columns: readonly string[];
  row: (item: T) => readonly string[];
  none: string;
  /** @default the item itself */
  document?: (item: T) => unknown;
}

/**
 * The output of a command: data to stdout, as text or, with `--json`, as JSON; everything else to stderr. Removes
 * control characters and masks secrets. Commands in texts, such as `follow-up doctor`, are written as the command line
 * was called, and lines are folded to the width of a terminal; JSON is unchanged.
 */
export class Output {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly #command: string;
  commandNames: readonly string[] = [];
  /** The current live display. Notes go above it. */
  frame?: { erase(): void; draw(): void } | undefined;

  constructor(
    { stdout, stderr, command = 'follow-up' }: Pick<CliIo, 'stdout' | 'stderr' | 'command'>,
    /** Whether data is JSON. Set again after the arguments are parsed. */
    public json: boolean,
  ) {
    this.stdout = stdout;
    this.stderr = stderr;
    this.#command = command;
  }

  /**
   * Writes the command's data: the only document, or one of several.
   *
   * @param mask hides secrets. The simulator's key is public, and shown even if the settings hold it
   */
  data(value: unknown, text: string, mask = maskSecrets): void {
    this.stdout.write(`${this.json ? mask(safeJson(value)) : this.#lines(text, this.stdout, mask)}\n`);
  }

  /** Writes a list: a table, or with `--json` one document per item. */
  async list<T>(
    items: AsyncIterable<T> | Iterable<T>,
    { columns, row, none, document = (item) => item }: ListView<T>,
  ): Promise<void> {
    const rows = [columns];
    for await (const item of items) {
      rows.push(row(item).map(safeLine));
      if (this.json) this.data(document(item), '');
    }
    if (rows.length === 1) this.note(none);
    else if (!this.json) this.data(undefined, tableOf(rows, this.stdout.columns).join('\n'));
  }

  /** Writes a line to stderr: progress, a hint or a warning. */
  note(text: string): void {
    this.frame?.erase();
    this.stderr.write(`${this.#lines(text, this.stderr, maskSecrets)}\n`);
    this.frame?.draw();
  }

  #lines(text: string, { columns }: OutputStream, mask: typeof maskSecrets): string {
    return fold(mask(plainText(this.hint(text))), columns);
  }

  /** Writes the commands in a text as the command line was called. */
  hint(text: string): string {
    if (this.#command === 'follow-up' || this.commandNames.length === 0) return text;
    const command = new RegExp(`(?<![\\w/-]|npx )follow-up (?=(?:${this.commandNames.join('|')})\\b)`, 'g');
    return text.replace(command, `${this.#command} `);
  }
}

/** Whether a stream can show a live display. A terminal without a known size (0 rows) cannot. */
export function isLive(stream: OutputStream): stream is NodeJS.WriteStream {
  return stream.isTTY === true && (stream.rows ?? 0) > 0;
}

/** Signals within this time count as one. */
const REPEAT_AFTER_MS = 1_000;

/**
 * Runs work that Ctrl-C, SIGTERM and SIGHUP interrupt: the first one aborts the signal with an {@link
 * InterruptedError}, the second ends the process at once.
 */
export async function interruptible<T>({ io }: Cli, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  let firstMs = 0;
  const ignore = io.onSignal((signal) => {
    if (controller.signal.aborted) {
      // A second request ends at once. npm forwards a Ctrl-C that the terminal has already sent.
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
