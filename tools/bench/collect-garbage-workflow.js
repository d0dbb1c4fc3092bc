/**
 * Collects the garbage of the thread that runs the workflows. That thread has a heap of its own, which `gc()` of the
 * main thread does not touch. Needs `--expose-gc`.
 */
export async function collectGarbage() {
  globalThis.gc();
}
