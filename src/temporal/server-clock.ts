import { formatDuration } from '../contract/index.js';

/** A larger difference is named wherever it may be the cause of trouble. */
const MAX_OFFSET_MS = 10_000;

/** Compares this machine's clock with the Temporal server's. */
export class ServerClock {
  #offsetMs = 0;
  #measuredAtMs = 0;

  /** How far this machine's clock is certainly ahead of the server's; negative if it is behind. */
  get offsetMs(): number {
    return this.#offsetMs;
  }

  /** Notes that the server's clock showed `serverMs` between two times of this machine, all in epoch milliseconds. */
  observe(fromMs: number, serverMs: number, toMs: number): void {
    this.#offsetMs = Math.max(0, fromMs - serverMs) - Math.max(0, serverMs - toMs);
    this.#measuredAtMs = toMs;
  }

  /** Says that the clock is wrong; `undefined` while it is not known to be. */
  problem(): string | undefined {
    if (Math.abs(this.#offsetMs) <= MAX_OFFSET_MS) return undefined;
    const side = this.#offsetMs > 0 ? 'ahead of' : 'behind';
    const since = new Date(this.#measuredAtMs).toISOString();
    return `the clock of this worker's machine is ${formatDuration(Math.abs(this.#offsetMs))} ${side} the Temporal server's (as of ${since} by its own time): synchronize it, for example with NTP`;
  }
}
