import { existsSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { type Environment, processEnvironment } from '../config/settings-reader.js';
import { plainText, safeJson } from '../terminal-text.js';

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
  /** Ended by Ctrl-C or SIGTERM; what was started goes on in Temporal. */
  interrupted: 130,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/** The arguments are wrong in a way that only the command itself could see. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Temporal went away during a start: whether it has begun is not known, and the same id makes another try safe. */
export class StartUnknownError extends Error {
  override readonly name = 'StartUnknownError';

  /** @param again the command that makes another try, such as `the same command` */
  constructor(
    cause: Error,
    readonly workflowId: string,
    again: string,
  ) {
    super(`${cause.message}; if ${workflowId} was started it goes on, and ${again} finds it`, { cause });
  }
}

/** Ended by Ctrl-C or SIGTERM. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  /** The follow-up that goes on, where there is one. */
  workflowId?: string;

  constructor(readonly signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`);
  }
}

/** Where output goes. The size is known of a terminal only. */
type OutputStream = Writable & { isTTY?: boolean; columns?: number; rows?: number };

/** What the command line runs in: this process and its terminal, or a test's. */
export interface CliIo {
  env: Environment;
  stdin: Readable;
  stdout: OutputStream;
  stderr: OutputStream;
  /**
   * Calls the listener at every SIGINT and SIGTERM.
   *
   * @returns stops that
   */
  onSignal(listener: (signal: NodeJS.Signals) => void): () => void;
  /** When the command was called, as `performance.now()` tells it. */
  calledAtMs: number;
  /** How the command is called, for hints. @default 'follow-up' */
  command?: string;
  /** Ends the process at once. */
  exit(code: ExitCode): void;
}

/** What every command is given. */
export interface Cli {
  io: CliIo;
  env: Environment;
  output: Output;
  /** What the command that was run ended with. */
  exitCode: ExitCode;
  /** Resolves when the workflow bundle is there. Missing unless a checkout is making it just now. */
  bundled?: Promise<void> | undefined;
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** This process. */
export function processIo(): CliIo {
  return {
    env: processEnvironment(),
    // Looking at it opens it.
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
    // The clock starts with the process.
    calledAtMs: 0,
    command: commandName(),
    exit: (code) => process.exit(code),
  };
}

/** A checkout, which alone has sources, puts nothing on the PATH, and neither does npx. */
function commandName(): string {
  const isCheckout = existsSync(new URL('../../src', import.meta.url));
  return isCheckout || processEnvironment()['npm_command'] === 'exec' ? 'npx follow-up' : 'follow-up';
}

/**
 * Where a command writes: its data to stdout, as text or, with `--json`, as JSON; everything else to stderr. Control
 * characters never get through. Commands that a text tells to run, such as `follow-up doctor`, are written as the
 * command line was called; JSON is left as it is.
 */
export class Output {
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  readonly #command: string;
  /** Names of the commands that a text may tell to run. */
  commandNames: readonly string[] = [];

  constructor(
    { stdout, stderr, command = 'follow-up' }: Pick<CliIo, 'stdout' | 'stderr' | 'command'>,
    /** Whether stdout takes JSON. Set again once the arguments are parsed. */
    public json: boolean,
  ) {
    this.stdout = stdout;
    this.stderr = stderr;
    this.#command = command;
  }

  /** The command's data: a document of its own, or one item of several. */
  data(value: unknown, text: string): void {
    this.stdout.write(this.json ? `${safeJson(value)}\n` : `${plainText(this.hint(text))}\n`);
  }

  /** A line for people only: progress, hints, warnings. */
  note(text: string): void {
    this.stderr.write(`${plainText(this.hint(text))}\n`);
  }

  /** A text whose commands are written as the command line was called. */
  hint(text: string): string {
    if (this.#command === 'follow-up' || this.commandNames.length === 0) return text;
    const command = new RegExp(`(?<![\\w/-]|npx )follow-up (?=(?:${this.commandNames.join('|')})\\b)`, 'g');
    return text.replace(command, `${this.#command} `);
  }
}

/** Whether a stream can be drawn on. A terminal that does not know its size (0 rows) would show nothing. */
export function isLive(stream: OutputStream): stream is NodeJS.WriteStream {
  return stream.isTTY === true && (stream.rows ?? 0) > 0;
}

/** Two signals within that time are one. */
const REPEAT_AFTER_MS = 1_000;

/**
 * Runs work that Ctrl-C and SIGTERM end: the first aborts the signal with an {@link InterruptedError}, the second ends
 * the process at once.
 */
export async function interruptible<T>({ io }: Cli, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  let firstMs = 0;
  const ignore = io.onSignal((signal) => {
    if (controller.signal.aborted) {
      // Whoever asks twice does not want to wait for anything. npm passes a Ctrl-C on that the terminal sent us as well.
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
