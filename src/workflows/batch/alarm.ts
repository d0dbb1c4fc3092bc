import { sleep } from '@temporalio/workflow';

/**
 * One timer at a time for all that a workflow waits for: an earlier instant starts another, a later one waits for the
 * one that runs. A timer that is broken off costs as many events as one that rings.
 */
export class Alarm {
  #atMs: number | undefined;

  constructor(
    private readonly summary: string,
    private readonly ring: () => void,
  ) {}

  /** Rings at that instant, or a little after. */
  set(atMs: number): void {
    if (this.#atMs === undefined || atMs < this.#atMs) void this.#wait(atMs);
  }

  async #wait(atMs: number): Promise<void> {
    this.#atMs = atMs;
    await sleep(Math.max(1, Math.ceil(atMs - Date.now())), { summary: this.summary });
    if (this.#atMs !== atMs) return;
    this.#atMs = undefined;
    this.ring();
  }
}
