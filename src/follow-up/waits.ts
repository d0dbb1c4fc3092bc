import type { DeliveryDecision } from '../contract/index.js';
import type { FollowUpPort, Stoppable } from './port.js';

/** Longest wait between attempts that come to nothing. */
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
  #failuresInARow = 0;
  /** When the last backoff is over. */
  #backedOffAtMs = 0;
  #stop: () => void = () => undefined;

  constructor(
    private readonly port: FollowUpPort,
    patienceMs: number,
  ) {
    this.#beganAtMs = port.nowMs();
    this.patienceEndsMs = this.#beganAtMs + patienceMs;
  }

  interrupt(): void {
    this.#isInterrupted = true;
    this.#stop();
  }

  extendPatience(untilMs: number): void {
    this.patienceEndsMs = Math.max(this.patienceEndsMs, untilMs);
  }

  /**
   * Waits for an activity that an interruption stops. If someone ends it in Temporal, this backs off, at most until
   * `untilMs`.
   */
  async waitFor<T>(activity: Stoppable<T>, untilMs?: number): Promise<T | undefined> {
    this.#isInterrupted = false;
    this.#stop = () => activity.stop();
    const result = await activity.result;
    if (result === undefined && !this.#isInterrupted) await this.sleep(this.backoffMs(), untilMs);
    return result;
  }

  /** Waits, at most until an interruption or `untilMs`. */
  async sleep(ms: number, untilMs = this.patienceEndsMs): Promise<void> {
    const leftMs = untilMs - this.port.nowMs();
    if (leftMs <= 0) return;
    this.#isInterrupted = false;
    await this.port.condition(() => this.isCancelled || this.#isInterrupted, Math.min(ms, leftMs));
  }

  /**
   * How long to wait after something came to nothing: longer each time, until {@link noteProgress}, or until nothing
   * has failed for as long as the longest backoff.
   */
  backoffMs(longestMs = LONGEST_BACKOFF_MS): number {
    const nowMs = this.port.nowMs();
    if (nowMs - this.#backedOffAtMs > this.stretchedMs(LONGEST_BACKOFF_MS)) this.noteProgress();
    this.#failuresInARow += 1;
    const waitMs = Math.min(this.stretchedMs(longestMs), 500 * 2 ** this.#failuresInARow);
    this.#backedOffAtMs = nowMs + waitMs;
    return waitMs;
  }

  noteProgress(): void {
    this.#failuresInARow = 0;
  }

  /** `longestMs`, or 1/300 of the time that has passed if that is longer. */
  stretchedMs(longestMs: number): number {
    return Math.max(longestMs, (this.port.nowMs() - this.#beganAtMs) * LONG_WAIT_SHARE);
  }
}
