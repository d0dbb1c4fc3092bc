import { iso } from '../common/index.js';
import type { FollowUpStanding } from '../contract/index.js';
import { toReason } from '../protocol/index.js';
import { firstObservation, type Observation, type WatchRequest, type WatchResult } from './judge.js';
import type { StepContext } from './step-context.js';

interface Watch extends Pick<WatchRequest, 'until' | 'baseline' | 'arrivedByMs' | 'runId' | 'deadlineMs'> {
  /** What the follow-up shows while the job can be read. */
  standing: FollowUpStanding;
  /** Whether the watch is no longer needed. */
  isOver?: () => boolean;
  /** Whether the job was seen at work on the message before the watch. */
  observedActive?: boolean;
}

/** Watches the job until its goal, the deadline or a lasting 404. Returns `undefined` after a cancel or when `isOver()`. */
export async function watchUntil(
  { settings, port, display, waits }: StepContext,
  { standing, isOver = () => false, observedActive = false, ...goal }: Watch,
): Promise<WatchResult | undefined> {
  const { projectId, jobId, poll, settleTimeMs, prLinkGraceMs } = settings;
  const request = { projectId, jobId, ...goal, poll, settleTimeMs, prLinkGraceMs };
  let trouble: string | null = null;
  let observation: Observation | undefined = observedActive
    ? { ...firstObservation(request, port.nowMs()), observedActive }
    : undefined;
  display.show(standing);
  while (!waits.isCancelled && !isOver()) {
    const watch = port.watchJob({ ...request, trouble, ...(observation && { observation }) });
    const end = await waits.waitFor(watch, request.deadlineMs);
    if (!end) {
      // The job is read at once after `pollNow`, and after the backoff when an operator has ended the activity.
      observation = { ...(observation ?? firstObservation(request, port.nowMs())), nextPollAt: iso(port.nowMs()) };
      continue;
    }
    ({ observation } = end);
    if (observation.job) display.noteJob(observation.job, request.until === 'end' && observation.observedActive);
    display.noteError(observation.lastError);
    if (end.kind !== 'trouble') {
      // The client library adds the polls of a running watch.
      if (request.until !== 'rest') display.facts.polls += observation.polls;
      return end;
    }
    ({ trouble } = end);
    display.show(trouble === null ? standing : inTrouble(trouble, standing));
  }
  return undefined;
}

/** A follow-up that may have sent never shows `blocked`, because a new budget finds it by its state. */
function inTrouble(trouble: string, standing: FollowUpStanding): FollowUpStanding {
  const waitReason = toReason(trouble) ?? 'service';
  const isAfterSend = standing.state === 'polling' || standing.state === 'reconciling';
  return isAfterSend ? { ...standing, waitReason } : { state: 'blocked', waitReason };
}
