import type { PatchPort } from '../common/index.js';

export interface FlowPort extends PatchPort {
  nowMs(): number;
  condition(isOver: () => boolean): Promise<unknown>;
  /** Calls {@link Flow.wake} at that time or shortly after. */
  wakeAt(atMs: number): void;
}

/** Base of the flows of batches and parts: events wake the main loop, and calls may be in progress. */
export class Flow {
  protected isWoken = true;
  protected underWay = 0;

  wake(): void {
    this.isWoken = true;
  }

  protected during(call: () => Promise<unknown>): void {
    this.underWay += 1;
    void call().finally(() => {
      this.underWay -= 1;
      this.wake();
    });
  }
}
