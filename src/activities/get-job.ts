import { log } from '@temporalio/activity';
import type { AgentJobsClient } from '../agent-jobs/index.js';
import { isKeyRefused } from '../follow-up/look.js';
import type { GetJobResult } from '../follow-up/port.js';
import type { WarnOfKey } from './watch-job.js';

/** Interval at which a refused key is logged, for each project. */
const WARN_OF_KEY_EVERY_MS = 60_000;

/** Which job to read. */
export interface GetJobInput {
  projectId: string;
  jobId: string;
  /** Ask for {@link GetJobResult.sendStartToCloseMs}, too. */
  beforeSend?: true;
}

/**
 * The `getJob` activity. It is run as a local activity and never fails for what the service or the network does: the
 * follow-up's flow is the retry.
 */
export function createGetJob({
  agentJobs,
  sendStartToCloseMs,
  warnOfKey,
}: {
  agentJobs: AgentJobsClient;
  sendStartToCloseMs: number;
  warnOfKey: WarnOfKey;
}) {
  return async function getJob({ projectId, jobId, beforeSend }: GetJobInput): Promise<GetJobResult> {
    const read = await agentJobs.getJob({ projectId, jobId });
    warnOfKey({ projectId, jobId }, read);
    return beforeSend ? { ...read, sendStartToCloseMs } : read;
  };
}

/** Each follow-up of a project reads with the same key: one line a minute says it for all of them. */
export function createWarnOfKey(): WarnOfKey {
  const warnedAtMs = new Map<string, number>();
  return ({ projectId, jobId }, read) => {
    if (read.kind !== 'failed' || !isKeyRefused(read)) return;
    const nowMs = Date.now();
    if (nowMs < (warnedAtMs.get(projectId) ?? -Infinity) + WARN_OF_KEY_EVERY_MS) return;
    for (const [project, atMs] of warnedAtMs) if (nowMs >= atMs + WARN_OF_KEY_EVERY_MS) warnedAtMs.delete(project);
    warnedAtMs.set(projectId, nowMs);
    const { statusCode } = read;
    const fields = { projectId, jobId, outcome: 'unauthorized', ...(statusCode !== undefined && { statusCode }) };
    log.warn('The API key of a project is missing, or the service refuses it', fields);
  };
}
