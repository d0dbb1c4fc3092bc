/** Ended by Ctrl-C or SIGTERM. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
  /** The follow-up that goes on, where there is one. */
  workflowId?: string;

  constructor(readonly signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`);
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Two signals within that time are one. */
const REPEAT_AFTER_MS = 1_000;

/**
 * Runs work that Ctrl-C and SIGTERM end: the first aborts the signal with an {@link InterruptedError}, the second ends
 * the process at once.
 */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  let firstMs = 0;
  const interrupt = (signal: NodeJS.Signals) => {
    if (controller.signal.aborted) {
      // Whoever asks twice does not want to wait for anything. npm passes a Ctrl-C on that the terminal sent us as well.
      if (performance.now() - firstMs > REPEAT_AFTER_MS) process.exit(130);
      return;
    }
    firstMs = performance.now();
    controller.abort(new InterruptedError(signal));
  };
  for (const name of SIGNALS) process.on(name, interrupt);
  try {
    return await work(controller.signal);
  } finally {
    for (const name of SIGNALS) process.off(name, interrupt);
  }
}
