import type { GetJobOutcome } from '../agent-jobs/index.js';
import { defined } from '../common/index.js';
import { refusalOf } from '../protocol/index.js';

/** The service's response. A failure has a reason to wait, and `refused` if the budget has to know. */
export function toRead(outcome: GetJobOutcome) {
  if (outcome.kind !== 'failed') return outcome;
  const { reason, message, statusCode, retryAfterMs } = outcome;
  // A refused read means the same as a refused message. A missing key concerns only this worker.
  const refusal = refusalOf(reason);
  const refused = refusal && defined({ refusal, statusCode, retryAfterMs });
  const own = reason === 'no-key' ? 'credentials' : reason === 'not-served' ? reason : 'service';
  return defined({ kind: 'failed', reason: refusal ?? own, message, retryAfterMs, refused } as const);
}
