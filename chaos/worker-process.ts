import { spawn } from 'node:child_process';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { adopt } from './child-processes.js';
import type { FaultPointName } from './fault-point-names.js';

const COMMAND = fileURLToPath(new URL('../bin/follow-up.js', import.meta.url));
const FAULT_POINTS = new URL('fault-points.js', import.meta.url).href;
const MAX_LOG_LENGTH = 65_536;
/** A process reports right before it sends itself the signal. */
const SIGNAL_TAKES_MS = 100;

/** What fault-points.js is told: at the `hit`-th time that the point is reached, the process sends itself the signal. */
export interface FaultPlan {
  point: FaultPointName;
  /** From 1. */
  hit: number;
  signal: 'SIGKILL' | 'SIGSTOP';
}

/** A real worker, `follow-up worker`, in a process of its own. */
export interface WorkerProcess {
  /** Resolves when it has ended, with the exit code, or `null` where a signal ended it. */
  readonly exited: Promise<number | null>;
  /** Resolves when its fault plan strikes; never without one. */
  readonly struck: Promise<void>;
  /** Resolves when it polls both of its task queues; rejects when it ends before. */
  readonly ready: Promise<void>;
  hasExited(): boolean;
  kill(signal: NodeJS.Signals): void;
  /** Has it end in an orderly way (SIGTERM), also where it was stopped, and waits for that. */
  leave(): Promise<void>;
  /** What it logged last. */
  log(): string;
}

/**
 * @param env settings of the worker
 * @param plan when it is to kill or stop itself
 */
export function startWorkerProcess(env: Readonly<Record<string, string>>, plan?: FaultPlan): WorkerProcess {
  const { PATH = '', HOME = '' } = process.env;
  const child = adopt(
    spawn(process.execPath, ['--import', FAULT_POINTS, COMMAND, 'worker', '--json'], {
      env: { PATH, HOME, ...env, ...(plan && { CHAOS_FAULT_PLAN: JSON.stringify(plan) }) },
      // Its standard input ends with this process, however that ends, and the worker with it: see fault-points.js.
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
      // A stop that came late would outlast the one SIGCONT that it was given.
      child.kill('SIGCONT');
      await exited;
    },
    log: () => log,
  };
}
