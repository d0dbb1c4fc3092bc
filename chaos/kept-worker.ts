import { setTimeout as delay } from 'node:timers/promises';
import type { Lane } from './lane.js';
import type { WorkerProcess } from './worker-process.js';

const RESTART_AFTER_MS = 500;

/** A worker as a supervisor such as systemd keeps it: started again when it ends. */
export interface KeptWorker {
  /** How often it ended by itself. */
  readonly restarts: number;
  stop(): Promise<void>;
}

/** Starts a worker of a lane and keeps it. */
export function keepWorker(lane: Lane): KeptWorker {
  let restarts = 0;
  let isStopping = false;
  let worker: WorkerProcess = lane.startWorker();
  const kept = (async () => {
    for (;;) {
      await worker.exited;
      if (isStopping) return;
      restarts++;
      // Whatever it was sending when it ended is left open.
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
