import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createServer, Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { randomInt } from 'node:crypto';

/** A child process that runs a server and never outlives this process. */
export interface ServerProcess {
  readonly pid: number;
  /** Resolves when the process has ended, for whatever reason. */
  readonly exited: Promise<void>;
  hasExited(): boolean;
  /** `null` while it runs, or when a signal ended it. */
  exitCode(): number | null;
  /** The end of its output, for error messages. */
  lastOutput(): string;
  /** Sends a signal and returns at once. */
  kill(signal: NodeJS.Signals): void;
  /** SIGTERM, then SIGKILL after `graceMs` (default 5 s). Resolves when it has ended; may be called more than once. */
  stop(graceMs?: number): Promise<void>;
}

/** Settings of {@link startServerProcess}. */
interface ServerProcessOptions {
  env: NodeJS.ProcessEnv;
  cwd?: string;
  /** Called with everything the server writes. */
  onOutput?: ((text: string) => void) | undefined;
  /** User and group to run as; needs root. */
  uid?: number;
  gid?: number;
}

/**
 * `exec` turns the spawned process into the server, which keeps its id and signals. A helper process reads a pipe
 * from this process: the kernel closes it when this process dies, even by SIGKILL, and the server is killed.
 */
const GUARD_SCRIPT = 'exec 3<&0 </dev/null; (cat <&3; kill -9 $$) >/dev/null 2>&1 & exec "$@" 3<&-';

const MAX_OUTPUT_LENGTH = 8_192;

/**
 * Starts a server in a process group of its own, so that Ctrl-C in a terminal reaches it only through us. On Windows it
 * may outlive a parent that was killed.
 */
export function startServerProcess(
  command: string,
  args: readonly string[],
  { env, cwd, onOutput, uid, gid }: ServerProcessOptions,
): ServerProcess {
  const guarded = process.platform !== 'win32';
  const [file, argv] = guarded ? ['/bin/sh', ['-c', GUARD_SCRIPT, 'sh', command, ...args]] : [command, [...args]];
  const child = spawn(file, argv, {
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: guarded,
    cwd,
    uid,
    gid,
  });
  let output = '';
  const collect = (chunk: Buffer) => {
    const text = chunk.toString();
    output = (output + text).slice(-MAX_OUTPUT_LENGTH);
    onOutput?.(text);
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  child.stdin.on('error', () => undefined);
  letParentExit(child);

  let ended = false;
  const exited = new Promise<void>((resolve) => {
    const end = () => {
      ended = true;
      child.stdin.destroy();
      resolve();
    };
    child.once('exit', end);
    child.once('error', (error) => {
      output += `${command} could not be started: ${error.message}\n`;
      end();
    });
  });

  return {
    pid: child.pid ?? -1,
    exited,
    hasExited: () => ended,
    exitCode: () => child.exitCode,
    lastOutput: () => output.trim(),
    kill: (signal) => void child.kill(signal),
    stop: async (graceMs = 5_000) => {
      if (ended) return;
      // Nothing else may keep this process running while it waits for the end.
      child.ref();
      child.kill('SIGTERM');
      const grace = new AbortController();
      const killer = delay(graceMs, undefined, { signal: grace.signal }).then(
        () => child.kill('SIGKILL'),
        () => false,
      );
      await exited;
      grace.abort();
      await killer;
    },
  };
}

/** Calls `isReady` until it returns true. It may throw to say why not yet; the error quotes the last reason. */
export async function waitUntilReady(
  name: string,
  server: ServerProcess,
  timeoutMs: number,
  isReady: () => Promise<boolean>,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  let reason = 'no answer';
  for (;;) {
    if (server.hasExited()) throw new ServerExitedError(name, server.lastOutput());
    try {
      if (await isReady()) return;
    } catch (error) {
      reason = error instanceof Error ? error.message : String(error);
    }
    if (performance.now() > deadline) {
      throw new Error(
        `${name} was not ready within ${timeoutMs} ms (${reason}). Its last words: ${server.lastOutput()}`,
      );
    }
    await delay(100);
  }
}

const START_ATTEMPTS = 4;

/**
 * Starts a server that chooses free ports, and starts it again with others if somebody else was quicker.
 *
 * @param start chooses the ports, and leaves nothing behind if it throws
 * @param onPortTaken called before another attempt. It may throw to give up
 */
export async function startOnFreePorts<Started>(
  start: () => Promise<Started>,
  onPortTaken?: () => Promise<void>,
): Promise<Started> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start();
    } catch (error) {
      if (!(error instanceof ServerExitedError && error.isPortTaken) || attempt >= START_ATTEMPTS) throw error;
      await onPortTaken?.();
    }
  }
}

/** The server ended before it was ready. */
export class ServerExitedError extends Error {
  override readonly name = 'ServerExitedError';

  constructor(
    server: string,
    /** The end of its output. */
    readonly output: string,
  ) {
    super(`${server} ended before it was ready. Its last words: ${output || '(none)'}`);
  }

  /** Whether it ended because one of its ports is taken. */
  get isPortTaken(): boolean {
    return /address already in use|EADDRINUSE|Address in use|can't set frontend port|BindException/i.test(this.output);
  }
}

/**
 * The child alone does not keep this process running. Its pipes are sockets at run time, so they can be released too.
 */
function letParentExit(child: ChildProcessWithoutNullStreams): void {
  child.unref();
  for (const stream of [child.stdin, child.stdout, child.stderr]) {
    if (stream instanceof Socket) stream.unref();
  }
}

/** Whether a port can be listened on. */
export async function isPortFree(port: number, host: string): Promise<boolean> {
  return await listenOnce(port, host);
}

/**
 * Below the range from which Linux, macOS and Windows take the local ports of outgoing connections. A port in that
 * range may be taken by any connection while its server is down, and a client that keeps dialling it may even reach
 * itself.
 */
const LOWEST_PORT = 10_000;
const HIGHEST_PORT = 32_000;
const MAX_TRIES = 1_000;

/**
 * Random free ports, all different, from 10,000 to 32,000. Another process may still take one before it is used, so the
 * caller has to try again with others.
 */
export async function findFreePorts(count: number, host: string): Promise<number[]> {
  const ports = new Set<number>();
  for (let tries = 0; ports.size < count; tries++) {
    if (tries > MAX_TRIES) throw new Error(`No ${count} ports can be listened on at ${host}`);
    const port = randomInt(LOWEST_PORT, HIGHEST_PORT);
    if (!ports.has(port) && (await isPortFree(port, host))) ports.add(port);
  }
  return [...ports];
}

function listenOnce(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
