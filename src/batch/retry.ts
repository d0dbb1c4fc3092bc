import type { BatchItem } from '../contract/index.js';

/** Which items a retry sends again. */
export const retryChoices = ['unknown', 'failed'] as const;
export type RetryChoice = (typeof retryChoices)[number];

/**
 * Whether a retry sends an item again.
 *
 * - `unknown`: it cannot be told whether the message was delivered; it may be delivered a second time.
 * - `failed`: the agent's job failed, or the message was provably not delivered.
 *
 * A message that was delivered is not sent again, whatever became of the wait for its job.
 *
 * @param only one of the two; both, where it is missing
 */
export function isRetried({ status, error }: BatchItem, only?: RetryChoice): boolean {
  const choice: RetryChoice | undefined =
    error?.delivered === 'unknown'
      ? 'unknown'
      : status === 'failed' || error?.delivered === 'no'
        ? 'failed'
        : undefined;
  return choice !== undefined && (only === undefined || only === choice);
}
