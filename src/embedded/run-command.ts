import { spawn } from 'node:child_process';

/** How a command ended. */
interface CommandResult {
  /** `null` when a signal ended it. */
  exitCode: number | null;
  stdout: string;
  stderr: string;
}

/** Settings of {@link runCommand}. */
interface CommandOptions {
  env: NodeJS.ProcessEnv;
  /** The command is killed after this time, and the promise rejects. */
  timeoutMs: number;
  /** The command is killed when it aborts, and the promise rejects. */
  signal?: AbortSignal | undefined;
  cwd?: string;
  /** User and group to run as; needs root. */
  uid?: number;
  gid?: number;
  /** Called every `tickMs` while the command runs, with the elapsed time. May return a reason to give up. */
  onTick?: (elapsedMs: number) => string | undefined | void | Promise<string | undefined | void>;
  /** @default 10_000 */
  tickMs?: number;
}

const MAX_OUTPUT_LENGTH = 64 * 1024;

/**
 * Runs a command without a shell and waits for its end. Keeps the last 64 KiB of each output.
 *
 * @throws Error if it cannot be started, takes too long, or `onTick` gives up; not for an exit code
 */
export function runCommand(command: string, args: readonly string[], options: CommandOptions): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    const child = spawn(command, args, {
      env: options.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd: options.cwd,
      uid: options.uid,
      gid: options.gid,
    });
    let stdout = '';
    let stderr = '';
    let givenUp: string | undefined;
    child.stdout.on('data', (chunk: Buffer) => (stdout = (stdout + chunk.toString()).slice(-MAX_OUTPUT_LENGTH)));
    child.stderr.on('data', (chunk: Buffer) => (stderr = (stderr + chunk.toString()).slice(-MAX_OUTPUT_LENGTH)));

    const giveUp = (reason: string) => {
      givenUp ??= reason;
      child.kill('SIGKILL');
    };
    const deadline = setTimeout(() => giveUp(`took longer than ${options.timeoutMs} ms`), options.timeoutMs);
    const ticker = setInterval(() => {
      Promise.resolve(options.onTick?.(performance.now() - startedAt)).then(
        (reason) => typeof reason === 'string' && giveUp(reason),
        (error: unknown) => giveUp(String(error)),
      );
    }, options.tickMs ?? 10_000);
    const interrupt = () => giveUp('interrupted');
    if (options.signal?.aborted === true) interrupt();
    options.signal?.addEventListener('abort', interrupt);
    const finish = () => {
      options.signal?.removeEventListener('abort', interrupt);
      clearTimeout(deadline);
      clearInterval(ticker);
    };

    child.once('error', (error) => {
      finish();
      reject(new Error(`${command} could not be started: ${error.message}`));
    });
    // Not 'close': a grandchild that keeps a pipe open must not delay the answer.
    child.once('exit', (exitCode) => {
      setImmediate(() => {
        finish();
        child.stdout.destroy();
        child.stderr.destroy();
        if (givenUp === undefined) resolve({ exitCode, stdout, stderr });
        else reject(new Error(givenUp));
      });
    });
  });
}

/** The end of a command's output as one line, for an error message. */
export function lastWords(result: CommandResult, maxLength = 300): string {
  const text = (result.stderr.trim() || result.stdout.trim()).replace(/\s*\n\s*/g, ' | ');
  const shown = text.length > maxLength ? `…${text.slice(-maxLength)}` : text;
  return `exit code ${result.exitCode ?? 'none, killed by a signal'}${shown ? `: ${shown}` : ''}`;
}
