import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import {
  batchStatusQuery,
  type BatchStatus,
  type FollowUpBatchResult,
  followUpBatchResultSchema,
  parseInput,
} from '../contract/index.js';
import { TemporalUnreachableError } from './errors.js';
import type { Firing } from './schedule-description.js';
import { type ExecutionStatus, toExecutionStatus } from './summary.js';
import { callTemporal } from './temporal-call.js';

/** A query waits for a worker; without one it ends then. */
const QUERY_TIMEOUT_MS = 5_000;

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
export async function readFiringOutcome(client: Client, firing: Firing): Promise<FiringOutcome> {
  const handle = client.workflow.getHandle(firing.workflowId);
  let status: ExecutionStatus;
  try {
    const { status: described } = await callTemporal(client, () => handle.describe());
    status = toExecutionStatus(described.name);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    return { ...firing, status: 'unknown', countsUnavailable: 'its workflow is no longer kept' };
  }
  if (status === 'running') {
    try {
      const deadlineMs = Date.now() + QUERY_TIMEOUT_MS;
      const answer = await client.withDeadline(deadlineMs, () => handle.query(batchStatusQuery));
      return { ...firing, status, ...(answer.cancelled && { cancelled: true as const }), counts: toCounts(answer) };
    } catch {
      // Whatever the reason: that the batch runs is known, and its counts are a courtesy.
      return { ...firing, status, countsUnavailable: 'no worker answers' };
    }
  }
  if (status !== 'completed') return { ...firing, status, countsUnavailable: `its workflow was ${status}` };
  try {
    const result = parseInput(followUpBatchResultSchema(), await callTemporal(client, () => handle.result()));
    if (!result.ok) return { ...firing, status, countsUnavailable: 'its result is not of this version' };
    const { cancelled } = result.value;
    return { ...firing, status, ...(cancelled && { cancelled }), counts: toCounts(result.value) };
  } catch (error) {
    if (error instanceof TemporalUnreachableError) throw error;
    // It was run once more, by a backfill, since it was looked at.
    return { ...firing, status: 'unknown', countsUnavailable: 'it has changed meanwhile' };
  }
}

function toCounts({
  total,
  completed,
  archived,
  failed,
  errors,
  unknown,
}: BatchStatus | FollowUpBatchResult): FiringCounts {
  return { total, completed, archived, failed, errors, unknown };
}
