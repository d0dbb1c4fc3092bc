import { iso } from '../common/index.js';
import { FailureType, type FollowUpResult } from '../contract/index.js';
import type { Delivery } from './deliver.js';
import { Failed, jobNotFound } from './failed.js';
import { isLinkNew } from './judge.js';
import type { StepContext } from './step-context.js';
import { watchUntil } from './watch-until.js';

/**
 * Watches the job until the message's turn ends. Returns `foreign` if another run has the turn.
 *
 * @throws Failed
 */
export async function watchTurn(context: StepContext, delivery: Delivery): Promise<FollowUpResult | 'foreign'> {
  const { settings, port, display, waits } = context;
  const { projectId, jobId, jobTimeoutMs } = settings;
  const { kind, sentAtMs, observedActive, baseline, arrivedByMs, runId } = delivery;
  const deadlineMs = sentAtMs + jobTimeoutMs;
  const sentAt = iso(sentAtMs);
  Object.assign(display.facts, { delivery: kind, sentAt, waitsUntil: iso(deadlineMs) });
  const goal = { until: 'end', baseline, arrivedByMs, runId, deadlineMs } as const;
  const end = await watchUntil(context, { ...goal, standing: { state: 'polling' }, observedActive });
  if (end?.kind === 'ended') {
    const { job, observation } = end;
    display.noteJob(job, true);
    return {
      ...{ projectId, jobId, status: job.status, prLink: job.prLink ?? null, prLinkChanged: isLinkNew(job, baseline) },
      ...{ delivery: kind, observedActive: observation.observedActive },
      ...{ sentAt, finishedAt: iso(port.nowMs()), polls: display.facts.polls, job },
    };
  }
  if (end?.kind === 'foreign') return 'foreign';
  const delivered = kind === 'assumed' ? 'unknown' : 'yes';
  if (end?.kind === 'notFound') throw jobNotFound(end.message, delivered);
  if (waits.isCancelled) throw new Failed(FailureType.Cancelled, 'Cancelled after the send', delivered);
  throw new Failed(FailureType.JobTimeout, 'The job did not end in time', delivered);
}
