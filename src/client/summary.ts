import type { WorkflowExecutionInfo } from '@temporalio/client';
import { defined } from '../contract/defined.js';
import { type FollowUpState, followUpStates, parseFollowUpWorkflowId, SearchAttribute } from '../contract/index.js';

/** State of the workflow as Temporal sees it. */
export type ExecutionStatus = 'running' | 'completed' | 'failed' | 'cancelled' | 'terminated' | 'timedOut' | 'unknown';

/** A follow-up as Temporal's visibility shows it, without a worker. Instants are ISO 8601 in UTC. */
export interface FollowUpSummary {
  workflowId: string;
  projectId: string;
  jobId: string;
  key: string;
  status: ExecutionStatus;
  state?: FollowUpState;
  /** The agent job's status as last seen. */
  jobStatus?: string;
  prLink?: string;
  batchId?: string;
  startedAt: string;
  endedAt?: string;
}

/** Summary of a workflow; `undefined` if its id is not a follow-up's. */
export function toFollowUpSummary(info: Omit<WorkflowExecutionInfo, 'raw'>): FollowUpSummary | undefined {
  const id = parseFollowUpWorkflowId(info.workflowId);
  if (!id) return undefined;
  const attributes = info.typedSearchAttributes;
  const state = followUpStates.find((known) => known === attributes.get(SearchAttribute.state));
  const jobStatus = attributes.get(SearchAttribute.jobStatus);
  const prLink = attributes.get(SearchAttribute.prLink);
  const batchId = attributes.get(SearchAttribute.batchId);
  return {
    workflowId: info.workflowId,
    ...id,
    status: toExecutionStatus(info.status.name),
    ...defined({ state, jobStatus, prLink, batchId }),
    startedAt: info.startTime.toISOString(),
    ...defined({ endedAt: info.closeTime?.toISOString() }),
  };
}

/** Status of an execution in this library's words. */
export function toExecutionStatus(name: WorkflowExecutionInfo['status']['name']): ExecutionStatus {
  switch (name) {
    case 'RUNNING':
    case 'CONTINUED_AS_NEW':
    case 'PAUSED':
      return 'running';
    case 'COMPLETED':
      return 'completed';
    case 'FAILED':
      return 'failed';
    case 'CANCELLED':
      return 'cancelled';
    case 'TERMINATED':
      return 'terminated';
    case 'TIMED_OUT':
      return 'timedOut';
    default:
      return 'unknown';
  }
}
