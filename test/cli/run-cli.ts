import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const COMMAND = fileURLToPath(new URL('../../bin/follow-up.js', import.meta.url));

/** How a run of the command line ended. */
export interface CliResult {
  exitCode: number | null;
  stdout: string;
  stderr: string;
}

/** A run of the command line that is under way. */
export interface CliRun {
  /** 0 where it could not be started. */
  pid: number;
  kill(signal: NodeJS.Signals): void;
  /** What it has written so far. */
  stdout(): string;
  stderr(): string;
  ended: Promise<CliResult>;
}

/** Settings of {@link startCli}. */
export interface CliOptions {
  env?: Record<string, string>;
  stdin?: string | Buffer;
}

/** Runs the real command as a process of its own, with nothing of this one's settings. */
export function startCli(args: readonly string[], { env = {}, stdin = '' }: CliOptions = {}): CliRun {
  const child = spawn(process.execPath, [COMMAND, ...args], {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], NO_COLOR: '1', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  child.stdin.on('error', () => undefined);
  child.stdin.end(stdin);
  return {
    pid: child.pid ?? 0,
    kill: (signal) => void child.kill(signal),
    stdout: () => stdout,
    stderr: () => stderr,
    ended: new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (exitCode) => resolve({ exitCode, stdout, stderr }));
    }),
  };
}

/** Runs the command to its end. */
export function runCli(args: readonly string[], options?: CliOptions): Promise<CliResult> {
  return startCli(args, options).ended;
}
