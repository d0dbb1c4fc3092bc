import { activityInfo, ApplicationFailure, heartbeat, log } from '@temporalio/activity';
import { ApplicationFailureCategory } from '@temporalio/common';
import type { AgentJobsClient, JobAddress } from '../agent-jobs/index.js';
import type { NothingNewDetails } from '../contract/protocol.js';
import { type Attempt, isKeyRefused, judgeLook, waitBeforeLook } from '../follow-up/look.js';
import type { GetJobResult, WatchOrder, WatchResult } from '../follow-up/port.js';
import { startStopwatch } from '../stopwatch.js';

/** How often a refused key is logged, per project. */
const WARN_OF_KEY_EVERY_MS = 60_000;

export interface GetJobInput extends JobAddress {
  /** Also return the worker's settings. */
  beforeSend?: true;
}

/** What an attempt of a watch leaves with the server for later attempts. */
interface WatchMark {
  failures: number;
}

export function createJobReads({
  agentJobs,
  sendStartToCloseMs,
  linksArePrivate = false,
}: {
  agentJobs: AgentJobsClient;
  sendStartToCloseMs: number;
  linksArePrivate?: boolean;
}) {
  const warnOfKey = createKeyWarning();

  async function read({ projectId, jobId }: JobAddress): Promise<GetJobResult> {
    const result = await agentJobs.getJob({ projectId, jobId });
    if (result.kind === 'failed' && isKeyRefused(result)) warnOfKey({ projectId, jobId }, result.statusCode);
    return result;
  }

  return {
    /**
     * Reads a job. This runs as a local activity and never fails because of the service or the network: the follow-up's
     * flow is the retry.
     */
    async getJob({ beforeSend, ...job }: GetJobInput): Promise<GetJobResult> {
      const result = await read(job);
      return beforeSend ? { ...result, sendStartToCloseMs, ...(linksArePrivate && { linksArePrivate }) } : result;
    },

    /**
     * Reads a job again and again. Each attempt looks once. It completes when what people are shown has changed, or when
     * a decision depends on the time. Otherwise it fails as `NothingNew`, which is benign, and says when to look again.
     * So the server does the waiting between two looks, which costs neither an event nor a worker.
     *
     * @throws ApplicationFailure `NothingNew`, with {@link NothingNewDetails}
     */
    async watchJob(order: WatchOrder): Promise<WatchResult> {
      const info = activityInfo();
      const elapsedMs = startStopwatch();
      const failuresBefore = (info.heartbeatDetails as WatchMark | undefined)?.failures ?? order.failures;
      // By the server's clock, like all times of the order.
      const attempt = (): Attempt => ({
        number: info.attempt,
        nowMs: info.currentAttemptScheduledTimestampMs + elapsedMs(),
        failuresBefore,
        random: Math.random(),
      });
      const early = waitBeforeLook(order, attempt());
      if (early) throw nothingNew(early, { looks: 0, lookedAtMs: null, trouble: null });
      const result = await read(order);
      const look = judgeLook(order, attempt(), result);
      if (look.kind === 'end') {
        const { looks, intervalMs, failures } = look;
        return { read: result, looks, intervalMs, failures };
      }
      if (look.failures !== failuresBefore) heartbeat({ failures: look.failures } satisfies WatchMark);
      const trouble = result.kind === 'job' ? null : result.message;
      throw nothingNew(look, { looks: look.looks, lookedAtMs: Date.now(), trouble });
    },
  };
}

/** Logs a refused key at most once a minute per project: all follow-ups of a project read with the same key. */
function createKeyWarning(): (job: JobAddress, statusCode: number | undefined) => void {
  const warnedAtMs = new Map<string, number>();
  return ({ projectId, jobId }, statusCode) => {
    const nowMs = Date.now();
    if (nowMs < (warnedAtMs.get(projectId) ?? -Infinity) + WARN_OF_KEY_EVERY_MS) return;
    for (const [project, atMs] of warnedAtMs) if (nowMs >= atMs + WARN_OF_KEY_EVERY_MS) warnedAtMs.delete(project);
    warnedAtMs.set(projectId, nowMs);
    const fields = { projectId, jobId, outcome: 'unauthorized', ...(statusCode !== undefined && { statusCode }) };
    log.warn('The API key of a project is missing, or the service refuses it', fields);
  };
}

function nothingNew(
  { message, delayMs }: { message: string; delayMs: number },
  details: NothingNewDetails,
): ApplicationFailure {
  return ApplicationFailure.create({
    type: 'NothingNew',
    message,
    nextRetryDelay: Math.max(1, Math.ceil(delayMs)),
    category: ApplicationFailureCategory.BENIGN,
    details: [details],
  });
}
