import type { FollowUpBatchResult } from '../contract/index.js';
import { BatchNotFoundError } from './batch-errors.js';
import { BatchHandle, type BatchTarget } from './batch-handle.js';
import { FollowUpClientError, TemporalUnreachableError } from './errors.js';
import type { Firing } from './schedule-description.js';
import type { ExecutionStatus } from './summary.js';

/** How many of a batch's follow-ups stand how. */
export type FiringCounts = Pick<
  FollowUpBatchResult,
  'total' | 'completed' | 'archived' | 'failed' | 'errors' | 'unknown'
>;

/** A firing and what has become of its batch. */
export interface FiringOutcome extends Firing {
  /** Of the batch's workflow. */
  status: ExecutionStatus;
  /** Set where the batch was cancelled before its end. */
  cancelled?: true;
  counts?: FiringCounts;
  /** Why there are no counts. */
  countsUnavailable?: string;
}

/**
 * What has become of a firing. Of a batch that runs, a worker has to tell.
 *
 * @throws TemporalUnreachableError
 */
export async function readFiringOutcome(target: BatchTarget, firing: Firing): Promise<FiringOutcome> {
  const batch = new BatchHandle(target, firing.batchId);
  let status: ExecutionStatus = 'unknown';
  try {
    ({ status } = await batch.describe());
    if (status !== 'running' && status !== 'completed') {
      return { ...firing, status, countsUnavailable: `its workflow was ${status}` };
    }
    const standing = status === 'running' ? await batch.status() : await batch.result();
    const { total, completed, archived, failed, errors, unknown, cancelled } = standing;
    const counts = { total, completed, archived, failed, errors, unknown };
    return { ...firing, status, ...(cancelled === true && { cancelled }), counts };
  } catch (error) {
    if (error instanceof TemporalUnreachableError || !(error instanceof FollowUpClientError)) throw error;
    const countsUnavailable =
      error instanceof BatchNotFoundError ? 'Temporal no longer keeps its workflow' : `no counts: ${error.message}`;
    return { ...firing, status, countsUnavailable };
  }
}
