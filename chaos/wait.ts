import { setTimeout as delay } from 'node:timers/promises';
import type { WorkerProcess } from './worker-process.js';

/** A step that a worker with work in hand has not come to that long after it was ready counts as missed. */
const STEP_TIMEOUT_MS = 120_000;

/** Whether `event` comes before the worker ends, and in time. */
export async function comesInTime(event: Promise<unknown>, worker: WorkerProcess): Promise<boolean> {
  const timer = new AbortController();
  await Promise.race([event, worker.ready.catch(() => undefined)]);
  try {
    return await Promise.race([
      event.then(() => true),
      // A worker that kills itself at the point ends while its report is on its way.
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
