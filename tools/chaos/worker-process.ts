import { spawn } from 'node:child_process';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { adopt } from './child-processes.js';
import type { FaultPointName } from './fault-point-names.js';

const COMMAND = fileURLToPath(new URL('../../bin/follow-up.js', import.meta.url));
const FAULT_POINTS = new URL('fault-points.js', import.meta.url).href;
const MAX_LOG_LENGTH = 65_536;
/** A process reports right before it sends the signal to itself. */
const SIGNAL_TAKES_MS = 100;

/** The plan for fault-points.js: the `hit`-th time that it reaches the point, the process sends itself the signal. */
export interface FaultPlan {
  point: FaultPointName;
  /** From 1. */
  hit: number;
  signal: 'SIGKILL' | 'SIGSTOP';
}

/** A real worker, `follow-up worker`, in a process of its own. */
export interface WorkerProcess {
  /** Resolves when it has ended, with the exit code, or with `null` if a signal ended it. */
  readonly exited: Promise<number | null>;
  /** Resolves when its fault plan strikes. Without a plan it never does. */
  readonly struck: Promise<void>;
  /** Resolves when it polls both of its task queues. Rejects if it ends before that. */
  readonly ready: Promise<void>;
  hasExited(): boolean;
  kill(signal: NodeJS.Signals): void;
  /** Ends it in order (SIGTERM), even if it is stopped, and waits for its end. */
  leave(): Promise<void>;
  /** The end of its log. */
  log(): string;
}

/**
 * @param env settings of the worker
 * @param plan when it kills or stops itself
 */
export function startWorkerProcess(env: Readonly<Record<string, string>>, plan?: FaultPlan): WorkerProcess {
  const { PATH = '', HOME = '' } = process.env;
  const child = adopt(
    spawn(process.execPath, ['--import', FAULT_POINTS, COMMAND, 'worker', '--json'], {
      env: { PATH, HOME, ...env, ...(plan && { CHAOS_FAULT_PLAN: JSON.stringify(plan) }) },
      // When this process ends, for any reason, standard input ends, and so does the worker: see fault-points.js.
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    }),
  );
  let log = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    log = (log + chunk.toString()).slice(-MAX_LOG_LENGTH);
  });
  let ended = false;
  const exited = new Promise<number | null>((resolve) => {
    child.once('exit', (code) => {
      ended = true;
      resolve(code);
    });
  });
  const struck = new Promise<void>((resolve) => {
    const report = child.stdio[3];
    if (report instanceof Readable) report.once('data', () => setTimeout(resolve, SIGNAL_TAKES_MS));
  });
  const ready = new Promise<void>((resolve, reject) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      if (chunk.toString().includes('"identity"')) resolve();
    });
    void exited.then((code) => reject(new Error(`the worker ended with ${code} before it was ready: ${log}`)));
  });
  ready.catch(() => undefined);
  return {
    exited,
    struck,
    ready,
    hasExited: () => ended,
    kill: (signal) => void child.kill(signal),
    async leave() {
      child.kill('SIGTERM');
      // The SIGSTOP may have come after an earlier SIGCONT.
      child.kill('SIGCONT');
      await exited;
    },
    log: () => log,
  };
}
