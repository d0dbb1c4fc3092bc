/** What rules need to change while older runs continue: see CONTRIBUTING.md, "A change to a workflow". */
export interface PatchPort {
  /**
   * Whether to take the new path of a change. `false` while a run repeats what it did before the change.
   *
   * @param id of the change, never used again
   */
  patched(id: string): boolean;
}

/** Whether a reset started this run after the run `runId` did something. Replays return the original result. */
export function wasResetAfter(port: PatchPort & { readonly runId: string }, runId: string): boolean {
  // The id names the run, because a later reset keeps the marker.
  return port.runId !== runId && port.patched(`reset-after-${runId}`);
}
