import type { AgentJobsClient, GetJobOutcome } from '../agent-jobs/index.js';

/** Which job to read. */
export interface GetJobInput {
  projectId: string;
  jobId: string;
  /** Ask for {@link GetJobResult.sendStartToCloseMs}, too. */
  beforeSend?: true;
}

/** What was read. */
export type GetJobResult = GetJobOutcome & {
  /** Start-to-close timeout of the send that may follow. It is the worker's configuration, which a workflow cannot see. */
  sendStartToCloseMs?: number;
};

/**
 * The `getJob` activity. It is run as a local activity and never fails for what the service or the network does: the
 * poll loop is the retry.
 */
export function createGetJob({
  agentJobs,
  sendStartToCloseMs,
}: {
  agentJobs: AgentJobsClient;
  sendStartToCloseMs: number;
}) {
  return async function getJob({ projectId, jobId, beforeSend }: GetJobInput): Promise<GetJobResult> {
    const outcome = await agentJobs.getJob({ projectId, jobId });
    return beforeSend ? { ...outcome, sendStartToCloseMs } : outcome;
  };
}
