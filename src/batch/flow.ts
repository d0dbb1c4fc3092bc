/** What the flows of a batch and of a part need of Temporal. */
export interface FlowPort {
  nowMs(): number;
  condition(isOver: () => boolean): Promise<unknown>;
  /** Calls {@link Flow.wake} at that time, or a little later. */
  wakeAt(atMs: number): void;
}

/** What the flows of a batch and of a part share: something happens, which wakes the main loop, and calls are under way. */
export class Flow {
  /** Whether something has happened since the last step. */
  protected isWoken = true;
  /** Calls under way. */
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
