import type { DeliveryDecision } from '../contract/index.js';
import type { FollowUpPort, Stoppable } from './port.js';

/** Longest wait between sends that do not start, and between watches that an operator ends. */
export const LONGEST_BACKOFF_MS = 3_600_000;
/** Waits grow to this share of the elapsed time, so that even a wait of a year stays within the limits of a history. */
const LONG_WAIT_SHARE = 1 / 300;

/** How long a follow-up waits, and what cuts a wait short. */
export class Waits {
  isCancelled = false;
  /** An operator's decision whether the last send was delivered. */
  decision: DeliveryDecision | undefined;
  /** Time until which the follow-up tries to send. */
  patienceEndsMs: number;
  /** Time of the first workflow task, so that a delayed start shortens no wait. */
  readonly #beganAtMs: number;
  #isInterrupted = false;
  #stop: () => void = () => undefined;

  constructor(
    private readonly port: FollowUpPort,
    patienceMs: number,
  ) {
    this.#beganAtMs = port.nowMs();
    this.patienceEndsMs = this.#beganAtMs + patienceMs;
  }

  /** Whether the flow stopped its own activity. Otherwise, someone ended the activity in Temporal. */
  get isInterrupted(): boolean {
    return this.#isInterrupted;
  }

  interrupt(): void {
    this.#isInterrupted = true;
    this.#stop();
  }

  extendPatience(untilMs: number): void {
    this.patienceEndsMs = Math.max(this.patienceEndsMs, untilMs);
  }

  /** Waits for an activity that an interruption stops. */
  waitFor<T>(activity: Stoppable<T>): Promise<T | undefined> {
    this.#isInterrupted = false;
    this.#stop = () => activity.stop();
    return activity.result;
  }

  /** Waits, at most until an interruption or `untilMs`. */
  async sleep(ms: number, untilMs = this.patienceEndsMs): Promise<void> {
    const leftMs = untilMs - this.port.nowMs();
    if (leftMs <= 0) return;
    this.#isInterrupted = false;
    await this.port.condition(() => this.isCancelled || this.#isInterrupted, Math.min(ms, leftMs));
  }

  /** The wait after something has failed so many times in a row. */
  backoffMs(times: number, longestMs = LONGEST_BACKOFF_MS): number {
    return Math.min(this.stretchedMs(longestMs), 500 * 2 ** times);
  }

  /** `longestMs`, or 1/300 of the time that has passed if that is longer. */
  stretchedMs(longestMs: number): number {
    return Math.max(longestMs, (this.port.nowMs() - this.#beganAtMs) * LONG_WAIT_SHARE);
  }
}
