import { Context } from '@temporalio/activity';

/** The run of the workflow for which this activity runs. */
export function ownRun(): { workflowId: string; runId: string } {
  return Context.current().info.workflowExecution ?? { workflowId: '', runId: '' };
}

/** Sleeps in this activity for a time, or until the signal is aborted. */
export async function sleepUnless(signal: AbortSignal, ms: number): Promise<void> {
  const context = Context.current();
  let wake = (): void => undefined;
  const woken = new Promise<void>((resolve) => (wake = resolve));
  signal.addEventListener('abort', wake);
  try {
    await Promise.race([context.sleep(ms), woken]);
  } finally {
    signal.removeEventListener('abort', wake);
  }
}
