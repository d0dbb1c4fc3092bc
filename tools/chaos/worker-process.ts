import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { LEASE_SLACK_MS } from '../../src/config/index.js';

const COMMAND = fileURLToPath(new URL('../../bin/follow-up.js', import.meta.url));
const FAULT_POINTS = new URL('fault-points.js', import.meta.url).href;
const MAX_LOG_LENGTH = 65_536;
/** Far longer than a worker stalls on a busy machine, because a send that times out leaves its delivery unknown. */
const SEND_TIMEOUT_MS = 20_000;
/** From the start of a send until the server gives it to another worker. */
export const SEND_START_TO_CLOSE_MS = SEND_TIMEOUT_MS + LEASE_SLACK_MS;
/** A worker ends itself with an error after a grace as long as a send may take. A busy machine gets a minute more. */
const EXIT_WITHIN_MS = SEND_START_TO_CLOSE_MS + 60_000;
/** A worker misses its step if it has not reached it this long after its start. */
const STEP_TIMEOUT_MS = 180_000;

/** Steps of a send and its webhook that fault-points.js sees, in their order. A send that waits repeats the ask's. */
export const steps = [
  ...(['ask-sent', 'grant-recorded', 'ask-accepted', 'send-scheduled'] as const),
  ...(['connected', 'headers-writing', 'body-written', 'response-received'] as const),
  ...(['outcome-sent', 'outcome-accepted', 'end-sent', 'end-accepted', 'end-recorded'] as const),
  ...(['webhook-written', 'webhook-responded'] as const),
];

/** The `hit`-th time that it reaches the step, from 1, a worker sends itself the signal. */
export interface FaultPlan {
  step: (typeof steps)[number];
  hit: number;
  signal: 'SIGKILL' | 'SIGSTOP';
}

const SETTINGS = {
  FOLLOW_UP_STATUS_ADDRESS: 'off',
  FOLLOW_UP_DRAIN: '0s',
  FOLLOW_UP_MARGIN: '200ms',
  FOLLOW_UP_SEND_TIMEOUT: `${SEND_TIMEOUT_MS}ms`,
};

const alive = new Set<ChildProcess>();
process.once('exit', () => alive.forEach((child) => child.kill('SIGKILL')));

/** A real worker, `follow-up worker`, in a process of its own that does not outlive this one. */
export class WorkerProcess {
  /** Resolves when it has ended, with the exit code, or with `null` if a signal ended it. */
  readonly exited: Promise<number | null>;
  /** Resolves when it polls both of its task queues, or has ended. */
  readonly ready: Promise<unknown>;
  /** Whether its fault plan strikes in time. */
  readonly struck: Promise<boolean>;
  /** The end of its log. */
  log = '';
  /** How it ended if it got SIGTERM: see `Departure` of the checker. */
  exitCode: number | null | 'late' | undefined;
  readonly #child: ChildProcess;

  constructor(settings: Readonly<Record<string, string>>, plan?: FaultPlan) {
    const { PATH = '', HOME = '' } = process.env;
    const child = spawn(process.execPath, ['--import', FAULT_POINTS, COMMAND, 'worker', '--json'], {
      env: { PATH, HOME, ...SETTINGS, ...settings, ...(plan && { CHAOS_FAULT_PLAN: JSON.stringify(plan) }) },
      // If this process is killed, standard input ends, and so does the worker: see fault-points.js.
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    });
    this.#child = child;
    alive.add(child);
    child.stderr.on('data', (chunk: Buffer) => (this.log = (this.log + chunk.toString()).slice(-MAX_LOG_LENGTH)));
    this.exited = new Promise((resolve) => child.once('exit', resolve));
    void this.exited.then(() => alive.delete(child));
    // Its first output says that it is ready.
    this.ready = Promise.race([once(child.stdout, 'data'), this.exited]);
    this.struck = Promise.race([
      // It reports right before it sends itself the signal, and the report of a dead process may come late.
      once(child.stdio[3] as Readable, 'data').then(() => delay(500, true)),
      this.exited.then(() => delay(1_000, false)),
      delay(STEP_TIMEOUT_MS, false, { ref: false }),
    ]);
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** Sends SIGTERM, and waits for its end. */
  async leave(): Promise<void> {
    if (!alive.has(this.#child)) return;
    this.signal('SIGTERM');
    this.exitCode = await Promise.race([this.exited, delay(EXIT_WITHIN_MS, 'late' as const, { ref: false })]);
  }

  /** Kills it (SIGKILL), and waits until it is dead. */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.exited;
  }
}
