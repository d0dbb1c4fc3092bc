import { spawn, type SpawnOptions } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from '../config/index.js';

/** Receives a line of progress. */
export type OnProgress = (message: string) => void;

/**
 * The environment of a child process, without the keys of this project and without `TEMPORAL_*`, which name a server.
 */
export function childEnvironment(env: Environment): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^(AGENT_JOBS|TEMPORAL)_/.test(name)));
}

/** A child process, such as a server, that never outlives this process. */
export interface ServerProcess {
  readonly pid: number;
  /** Resolves with the exit code at the end of the process; with `null` if a signal ended it. */
  readonly exited: Promise<number | null>;
  hasExited(): boolean;
  /** The end of its output, for error messages. */
  lastOutput(): string;
  /** Sends a signal, and resolves when the process has ended. */
  kill(signal: NodeJS.Signals): Promise<number | null>;
  /** SIGTERM, then SIGKILL after `graceMs` (default 5,000). Resolves when it has ended. Safe to repeat. */
  stop(graceMs?: number): Promise<void>;
}

interface ServerProcessOptions extends Pick<SpawnOptions, 'cwd' | 'uid' | 'gid'> {
  env: NodeJS.ProcessEnv;
  onOutput?: (text: string) => void;
}

/**
 * `exec` turns the spawned process into the server, which keeps its id and signals. A helper process reads a pipe from
 * this process: the kernel closes it when this process dies, even by SIGKILL, and the helper kills the process group.
 */
const GUARD_SCRIPT = 'exec 3<&0 </dev/null; (cat <&3; kill -s KILL -- -$$) >/dev/null 2>&1 & exec "$@" 3<&-';

/** The cause of a crash precedes the stack trace, which is 9 KB long if the port of Temporal's server is taken. */
const MAX_OUTPUT_LENGTH = 32_768;

/**
 * Starts a server in its own process group, so that Ctrl-C in a terminal does not reach it directly. On Windows it may
 * outlive a killed parent.
 */
export function startServerProcess(
  command: string,
  args: readonly string[],
  { onOutput, ...options }: ServerProcessOptions,
): ServerProcess {
  const guarded = process.platform !== 'win32';
  const [file, argv] = guarded ? ['/bin/sh', ['-c', GUARD_SCRIPT, 'sh', command, ...args]] : [command, args];
  const child = spawn(file, argv, { ...options, stdio: 'pipe', detached: guarded });
  let output = '';
  const collect = (chunk: Buffer) => {
    const text = chunk.toString();
    output = (output + text).slice(-MAX_OUTPUT_LENGTH);
    onOutput?.(text);
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  child.stdin.on('error', () => undefined);

  let hasExited = false;
  const exited = new Promise<number | null>((resolve) => {
    const end = (exitCode: number | null) => {
      hasExited = true;
      resolve(exitCode);
    };
    // The helper kills what the server left.
    child.once('exit', () => child.stdin.destroy());
    // Not `exit`, because the end of its output may come later.
    child.once('close', end);
    child.once('error', (error) => {
      output += `${command} could not be started: ${error.message}\n`;
      end(null);
    });
  });
  const kill = (signal: NodeJS.Signals) => {
    child.kill(signal);
    return exited;
  };
  return {
    pid: child.pid ?? -1,
    exited,
    hasExited: () => hasExited,
    lastOutput: () => output.trim(),
    kill,
    stop: async (graceMs = 5_000) => {
      const killer = setTimeout(() => void kill('SIGKILL'), graceMs);
      await kill('SIGTERM');
      clearTimeout(killer);
    },
  };
}

/**
 * Calls `isReady` until it returns true. It may throw the reason why not.
 *
 * @throws Error with the last reason and the end of the server's output, if the server ends or time is up; the signal's
 *   reason
 */
export async function waitUntilReady(
  name: string,
  server: ServerProcess,
  timeoutMs: number,
  isReady: () => Promise<boolean>,
  signal?: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  let reason = 'no response';
  for (;;) {
    signal?.throwIfAborted();
    const output = `Its last output: ${server.lastOutput() || '(none)'}`;
    if (server.hasExited()) throw new Error(`${name} ended before it was ready. ${output}`);
    try {
      if (await isReady()) return;
    } catch (error) {
      reason = error instanceof Error ? error.message : String(error);
    }
    if (performance.now() > deadline) {
      throw new Error(`${name} was not ready within ${timeoutMs} ms (${reason}). ${output}`);
    }
    await delay(100);
  }
}

const START_ATTEMPTS = 4;
const PORT_TAKEN = /address already in use|EADDRINUSE|can't set frontend port/i;

/**
 * Starts a server on free ports, and again on others if another process took one first.
 *
 * @param start chooses the ports, and leaves nothing behind if it throws
 */
export async function startOnFreePorts<Started>(start: () => Promise<Started>): Promise<Started> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start();
    } catch (error) {
      if (!(error instanceof Error && PORT_TAKEN.test(error.message)) || attempt >= START_ATTEMPTS) throw error;
    }
  }
}
