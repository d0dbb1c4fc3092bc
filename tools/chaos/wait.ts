import { setTimeout as delay } from 'node:timers/promises';
import type { WorkerProcess } from './worker-process.js';

/** A worker misses its step if it has not reached it this long after it was ready. */
const STEP_TIMEOUT_MS = 120_000;

/** Whether `event` happens in time, and before the worker ends. */
export async function comesInTime(event: Promise<unknown>, worker: WorkerProcess): Promise<boolean> {
  const timer = new AbortController();
  await Promise.race([event, worker.ready.catch(() => undefined)]);
  try {
    return await Promise.race([
      event.then(() => true),
      // The report of a worker that kills itself at the point may arrive after its end.
      worker.exited.then(() => delay(500, false)),
      delay(STEP_TIMEOUT_MS, false, { signal: timer.signal }).catch(() => false),
    ]);
  } finally {
    timer.abort();
  }
}

/** Kills workers and waits until they are dead. */
export async function killAll(workers: readonly WorkerProcess[]): Promise<void> {
  for (const worker of workers) worker.kill('SIGKILL');
  await Promise.all(workers.map((worker) => worker.exited));
}
