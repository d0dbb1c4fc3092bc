import { setTimeout as delay } from 'node:timers/promises';
import type { Lane } from './lane.js';
import type { WorkerProcess } from './worker-process.js';

const RESTART_AFTER_MS = 500;

/** A worker that is started again when it ends, as by a supervisor such as systemd. */
export interface KeptWorker {
  /** How often it ended by itself. */
  readonly restarts: number;
  stop(): Promise<void>;
}

/** Starts a worker of a lane, and starts it again whenever it ends. */
export function keepWorker(lane: Lane): KeptWorker {
  let restarts = 0;
  let isStopping = false;
  let worker: WorkerProcess = lane.startWorker();
  const kept = (async () => {
    for (;;) {
      await worker.exited;
      if (isStopping) return;
      restarts++;
      // What it was sending when it ended is unknown.
      lane.noteFault();
      await delay(RESTART_AFTER_MS);
      worker = lane.startWorker();
    }
  })();
  return {
    get restarts() {
      return restarts;
    },
    async stop() {
      isStopping = true;
      worker.kill('SIGKILL');
      await kept;
    },
  };
}
