import type { NothingNewDetails } from '../contract/index.js';
import { ApplicationFailureCategory } from '@temporalio/common';
import { activityInfo, ApplicationFailure, heartbeat } from '@temporalio/activity';
import type { AgentJobsClient } from '../agent-jobs/index.js';
import { judgeLook, waitBeforeLook, type Attempt } from '../follow-up/look.js';
import type { WatchOrder, WatchResult } from '../follow-up/port.js';
import { startStopwatch } from '../stopwatch.js';

/** What an attempt leaves with the server, for the attempts after it. */
interface WatchMark {
  failures: number;
}

/**
 * The `watchJob` activity: get-job, again and again. Each attempt looks once. It completes when what people are shown has
 * changed, or when the time has come at which a decision hangs on it; else it fails as `NothingNew`, which is benign, and
 * says when to look again. So the waiting between two looks is the server's: it costs no event, and no worker.
 *
 * @throws ApplicationFailure `NothingNew`, with {@link NothingNewDetails}
 */
export function createWatchJob({ agentJobs, warnOfKey }: { agentJobs: AgentJobsClient; warnOfKey: WarnOfKey }) {
  return async function watchJob(order: WatchOrder): Promise<WatchResult> {
    const info = activityInfo();
    const elapsedMs = startStopwatch();
    const failuresBefore = (info.heartbeatDetails as WatchMark | undefined)?.failures ?? 0;
    // By the server's clock, as all instants of the order are.
    const attempt = (): Attempt => ({
      number: info.attempt,
      nowMs: info.currentAttemptScheduledTimestampMs + elapsedMs(),
      failuresBefore,
      random: Math.random(),
    });
    const early = waitBeforeLook(order, attempt());
    if (early) throw nothingNew(early, { looks: 0, lookedAtMs: null, trouble: null });
    const { projectId, jobId } = order;
    const read = await agentJobs.getJob({ projectId, jobId });
    warnOfKey({ projectId, jobId }, read);
    const look = judgeLook(order, attempt(), read);
    if (look.kind === 'end') {
      const { looks, intervalMs } = look;
      return { read, looks, intervalMs };
    }
    if (look.failures !== failuresBefore) heartbeat({ failures: look.failures } satisfies WatchMark);
    const trouble = read.kind === 'job' ? null : read.message;
    throw nothingNew(look, { looks: look.looks, lookedAtMs: Date.now(), trouble });
  };
}

/** Logs a read that was refused for its key. */
export type WarnOfKey = (job: { projectId: string; jobId: string }, read: WatchResult['read']) => void;

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
