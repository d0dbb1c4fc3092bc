import { AssertionError } from 'node:assert';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';

/**
 * Waits until a condition holds. A condition that throws does not hold yet.
 *
 * @param what the condition in words, for the error
 * @param timeoutMs default 2 min, because a busy machine may need it. Only a failing test waits this long
 * @returns the value of the condition
 */
export async function eventually<T>(
  what: string,
  condition: () => T | Promise<T>,
  timeoutMs = 120_000,
): Promise<NonNullable<T>> {
  const startMs = performance.now();
  for (;;) {
    let reason = '';
    try {
      const value = await condition();
      if (value) return value;
    } catch (error) {
      reason = ` (${error instanceof Error ? error.message : String(error)})`;
    }
    const waitedMs = performance.now() - startMs;
    if (waitedMs > timeoutMs) throw new AssertionError({ message: `Not within ${timeoutMs} ms: ${what}${reason}` });
    // The longer the wait, the longer the pauses.
    await delay(Math.min(25 + waitedMs / 20, 250));
  }
}

/** Waits until a workflow has handled all signals that it got: never, if its workflow tasks fail. */
export async function readsAllSignals(workflow: WorkflowHandle): Promise<void> {
  await eventually('it has read all signals', async () => {
    const { events } = await workflow.fetchHistory();
    const lastRead = events?.findLastIndex((event) => event.workflowTaskCompletedEventAttributes) ?? -1;
    return !events?.slice(lastRead).some((event) => event.workflowExecutionSignaledEventAttributes);
  });
}
