import { spawn } from 'node:child_process';
import { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, inject } from 'vitest';
import { main } from '../../src/cli/main.js';
import { type Stack, startStack } from '../support/stack.js';

const COMMAND = fileURLToPath(new URL('../../bin/follow-up.js', import.meta.url));

/** Polls often enough for tests. */
export const FAST = ['--poll-initial-interval', '200ms', '--poll-max-interval', '500ms', '--settle-time', '5s'];

/** How a run of the command line ended. */
export interface CliResult {
  exitCode: number | null;
  stdout: string;
  stderr: string;
}

/** A run of the command line that is under way. */
export interface CliRun {
  kill(signal: NodeJS.Signals): void;
  /** What it has written so far. */
  stdout(): string;
  stderr(): string;
  ended: Promise<CliResult>;
}

/** A run as a process of its own. */
export interface CliProcess extends CliRun {
  /** 0 if the process could not be started. */
  pid: number;
}

/** Settings of a run. */
export interface CliOptions {
  env?: Record<string, string>;
  stdin?: string | Buffer;
}

/** The environment of a run. Of this process's, only PATH and HOME are kept. */
function environment(env: Record<string, string>) {
  const { PATH, HOME } = process.env;
  return { PATH, HOME, NO_COLOR: '1', ...env };
}

/** Keeps what is written to it. */
class Captured extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** Runs a command in this process, against a captured terminal. A signal reaches it as Ctrl-C would. */
export function openCli(args: readonly string[], { env = {}, stdin = '' }: CliOptions = {}): CliRun {
  const [stdout, stderr] = [new Captured(), new Captured()];
  const listeners = new Set<(signal: NodeJS.Signals) => void>();
  const ended = new Promise<CliResult>((resolve, reject) => {
    const end = (exitCode: number) => resolve({ exitCode, stdout: stdout.text, stderr: stderr.text });
    const io = {
      env: environment(env),
      stdin: Readable.from([Buffer.from(stdin)]),
      stdout,
      stderr,
      onSignal: (listener: (signal: NodeJS.Signals) => void) => {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
      exit: end,
    };
    main(args, io).then(end, reject);
  });
  return {
    kill: (signal) => {
      if (listeners.size === 0) throw new Error(`the command does not listen for ${signal}`);
      for (const listener of listeners) listener(signal);
    },
    stdout: () => stdout.text,
    stderr: () => stderr.text,
    ended,
  };
}

/** Runs a command to its end in this process. */
export function runCli(args: readonly string[], options?: CliOptions): Promise<CliResult> {
  return openCli(args, options).ended;
}

/** What a command prints with `--json`. */
export async function askCli(args: readonly string[], options?: CliOptions) {
  const { exitCode, stdout, stderr } = await runCli([...args, '--json'], options);
  const documents = stdout.split('\n').flatMap((line) => (line === '' ? [] : JSON.parse(line)));
  return { exitCode, stderr, documents, document: documents[0] };
}

/** A text with its local times as `TIME`. */
export const timeless = (text: string) => text.replaceAll(/(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d [+-]\d\d:\d\d/g, 'TIME');

/** A stack for the tests of a file, and the settings with which commands reach it. */
export function useStack(): { stack: Stack; env: Record<string, string> } {
  const rig = { env: {} } as ReturnType<typeof useStack>;
  beforeAll(async () => {
    const address = inject('temporalAddress');
    rig.stack = await startStack({ address, simulator: { autoCreate: true } });
    rig.env = { TEMPORAL_ADDRESS: address, FOLLOW_UP_TASK_QUEUE: rig.stack.taskQueue };
  });
  afterAll(() => rig.stack.stop());
  return rig;
}

/** Starts the executable as a process of its own. This takes a second longer than {@link openCli}. */
export function startCli(args: readonly string[], { env = {}, stdin = '' }: CliOptions = {}): CliProcess {
  const child = spawn(process.execPath, [COMMAND, ...args], { env: environment(env), stdio: 'pipe' });
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
