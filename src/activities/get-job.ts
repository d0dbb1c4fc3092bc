import { log } from '@temporalio/activity';
import type { AgentJobsClient, GetJobOutcome } from '../agent-jobs/index.js';

/** A refused key is logged that often for each project. */
const WARN_OF_KEY_EVERY_MS = 60_000;

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
  const warnedAtMs = new Map<string, number>();

  /** Each follow-up of a project reads with the same key: one line a minute says it for all of them. */
  function warnOfKey(projectId: string, jobId: string, statusCode: number | undefined): void {
    const nowMs = Date.now();
    if (nowMs < (warnedAtMs.get(projectId) ?? -Infinity) + WARN_OF_KEY_EVERY_MS) return;
    for (const [project, atMs] of warnedAtMs) if (nowMs >= atMs + WARN_OF_KEY_EVERY_MS) warnedAtMs.delete(project);
    warnedAtMs.set(projectId, nowMs);
    const fields = { projectId, jobId, outcome: 'unauthorized', ...(statusCode !== undefined && { statusCode }) };
    log.warn('The API key of a project is missing, or the service refuses it', fields);
  }

  return async function getJob({ projectId, jobId, beforeSend }: GetJobInput): Promise<GetJobResult> {
    const outcome = await agentJobs.getJob({ projectId, jobId });
    if (outcome.kind === 'failed' && (outcome.reason === 'unauthorized' || outcome.reason === 'no-key')) {
      warnOfKey(projectId, jobId, outcome.statusCode);
    }
    return beforeSend ? { ...outcome, sendStartToCloseMs } : outcome;
  };
}
