import { CancellationScope, sleep } from '@temporalio/workflow';

/**
 * One timer at a time for everything that a workflow waits for. An earlier time starts another timer; a later one waits
 * for the running timer. (Cancelling a timer costs as many events as letting it fire.) A cancel of the workflow does not
 * stop it.
 */
export class Alarm {
  #atMs: number | undefined;

  /**
   * @param summary shown with the timer in the Temporal UI
   * @param ring called when the time has come
   * @param onEvent called for each event of a timer that the history gets, including timers that were superseded
   */
  constructor(
    private readonly summary: string,
    private readonly ring: () => void,
    private readonly onEvent: (event: 'started' | 'fired') => void = () => undefined,
  ) {}

  /** When it rings next, in epoch milliseconds; `Infinity` if it is not set. */
  get nextAtMs(): number {
    return this.#atMs ?? Infinity;
  }

  /** Rings at that time, or a little later. */
  set(atMs: number): void {
    if (atMs < this.nextAtMs) void this.#wait(atMs);
  }

  async #wait(atMs: number): Promise<void> {
    this.#atMs = atMs;
    this.onEvent('started');
    const waitMs = Math.max(1, Math.ceil(atMs - Date.now()));
    await CancellationScope.nonCancellable(() => sleep(waitMs, { summary: this.summary }));
    this.onEvent('fired');
    if (this.#atMs !== atMs) return;
    this.#atMs = undefined;
    this.ring();
  }
}
