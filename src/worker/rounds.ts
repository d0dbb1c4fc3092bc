import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Runs `round` at once, and again `everyMs` after it has ended, until `signal` ends this. A pause between two rounds
 * keeps no process running. Rejects only if `round` does.
 */
export async function inRounds(everyMs: number, signal: AbortSignal, round: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await round();
    await sleep(everyMs, undefined, { signal, ref: false }).catch(() => undefined);
  }
}
