import { fork } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { MessageStep, SimulatorOptions } from '../../src/simulator/index.js';
import { adopt } from './child-processes.js';
import { readLedger, type Arrival } from './ledger-file.js';

const PROGRAM = fileURLToPath(new URL('oracle.js', import.meta.url));

/** Key of the service. It is public, and worth nothing anywhere else. */
export const ORACLE_API_KEY = 'chaos-admin-key';

const messageSchema = z.union([
  z.object({ ready: z.string() }),
  z.object({ reached: z.object({ id: z.number(), projectId: z.string(), step: z.string() }) }),
]);

/** PEM files of a certificate for `localhost`. */
export interface TlsFiles {
  key: string;
  cert: string;
}

/** The simulated agent job service in a process of its own, with its ledger on disk. */
export interface Oracle {
  readonly baseUrl: string;
  /** The messages that arrived, read from disk. */
  arrivals(): Promise<Arrival[]>;
  /**
   * Waits until the `hit`-th message of a project from now on reaches a step, and holds it there until `release` is
   * called.
   */
  hold(projectId: string, step: MessageStep, hit: number): { reached: Promise<void>; release: () => void };
  stop(): Promise<void>;
}

/** Starts the service. It counts messages and refuses none: the checker finds out whether there are too many. */
export async function startOracle(options: SimulatorOptions = {}, tls?: TlsFiles): Promise<Oracle> {
  const directory = await mkdtemp(join(tmpdir(), 'chaos-oracle-'));
  const ledgerFile = join(directory, 'ledger.jsonl');
  const settings: SimulatorOptions = {
    apiKey: ORACLE_API_KEY,
    autoCreate: true,
    limiter: { kind: 'none' },
    turn: { minMs: 300, maxMs: 900 },
    ...options,
    ledgerFile,
  };
  const child = adopt(fork(PROGRAM, [JSON.stringify({ options: settings, tls })], { execArgv: [] }));
  const reached = new EventEmitter();
  const ready = new Promise<string>((resolve, reject) => {
    child.on('message', (raw) => {
      const message = messageSchema.parse(raw);
      if ('ready' in message) resolve(message.ready);
      else reached.emit(`${message.reached.projectId} ${message.reached.step}`, message.reached.id);
    });
    child.once('exit', (code) => reject(new Error(`the service ended with ${code}`)));
  });
  const baseUrl = await ready;
  return {
    baseUrl,
    arrivals: () => readLedger(ledgerFile),
    hold(projectId, step, hit) {
      let id: number | undefined;
      const isReached = once(reached, `${projectId} ${step}`).then(([heldId]) => {
        id = z.number().parse(heldId);
      });
      child.send({ arm: { projectId, step, hit } });
      return {
        reached: isReached,
        release: () => {
          if (id !== undefined) child.send({ release: id });
        },
      };
    },
    async stop() {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
      await rm(directory, { recursive: true, force: true });
    },
  };
}
