/** A budget that has not replied for so long is silent. Usually it replies within a tenth of a second. */
const SILENT_AFTER_MS = 3_000;

/**
 * Makes the calls to each budget one after the other. While a budget is silent, one call at a time finds out whether it
 * replies again, and the others fail at once: those who wait would fill the worker's activity slots, which all projects share.
 */
export function createCallQueues(): <T>(key: string, call: () => Promise<T>) => Promise<T> {
  const queues = new Map<string, { isSilent: boolean; isUnderWay: boolean; waiting: ((go: boolean) => void)[] }>();
  return async (key, call) => {
    const queue = queues.get(key) ?? { isSilent: false, isUnderWay: false, waiting: [] };
    queues.set(key, queue);
    const mayGo =
      !queue.isUnderWay || (!queue.isSilent && (await new Promise<boolean>((go) => queue.waiting.push(go))));
    if (!mayGo) throw new Error('another call waits for its reply');
    queue.isUnderWay = true;
    const silence = setTimeout(() => {
      queue.isSilent = true;
      for (const go of queue.waiting.splice(0)) go(false);
    }, SILENT_AFTER_MS);
    try {
      const reply = await call();
      queue.isSilent = false;
      return reply;
    } finally {
      clearTimeout(silence);
      const next = queue.waiting.shift();
      if (next) next(true);
      else queue.isUnderWay = false;
      if (!queue.isUnderWay && !queue.isSilent) queues.delete(key);
    }
  };
}
