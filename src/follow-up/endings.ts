import {
  type AgentJob,
  type Delivered,
  type EndedStanding,
  endOf,
  type FailureDetails,
  type FailureType,
  type FollowUpResult,
  type SendOutcome,
} from '../contract/index.js';
import { fingerprint, isAtWork } from './belief.js';
import type { FollowUpFlow } from './flow.js';
import type { Ending, Steps } from './port.js';
import type { Watching } from './state.js';
import { isNewLink } from './turn.js';

/** A failure, with what else the caller is told. */
interface Failure {
  type: FailureType;
  message: string;
  details?: Pick<FailureDetails, 'issues' | 'statusCode' | 'serviceMessage'>;
}

/** Ends a follow-up that was not sent. If the outcome of an earlier send is unknown, `delivered` is unknown too. */
export function* endUnsent(flow: FollowUpFlow, failure: Failure, isProven: boolean): Steps<Ending> {
  const delivered = isProven && !flow.state.earlierSendUnknown ? 'no' : 'unknown';
  return yield* fail(flow, failure, { delivered, leaves: { kind: 'withdraw' } });
}

/** Ends a follow-up whose message was granted a send. */
export function* endSent(
  flow: FollowUpFlow,
  failure: Failure,
  { delivered, outcome }: { delivered: Delivered; outcome: SendOutcome },
): Steps<Ending> {
  return yield* fail(flow, failure, { delivered, leaves: { kind: 'finish', outcome } });
}

/** Ends a follow-up whose job has ended its turn. */
export function* endWithResult(
  flow: FollowUpFlow,
  watching: Watching,
  job: AgentJob & { status: FollowUpResult['status'] },
): Steps<Ending> {
  const { port, settings, state } = flow;
  const { delivery, observedActive, sentAtMs } = watching;
  const finishedAtMs = port.nowMs();
  yield* end(flow, endOf(job), { kind: 'finish', outcome: delivery === 'sent' ? 'sent' : 'unknown' });
  const prLink = job.prLink ?? null;
  return {
    kind: 'result',
    result: {
      projectId: settings.projectId,
      jobId: settings.jobId,
      status: job.status,
      prLink,
      prLinkChanged: isNewLink(prLink, watching, state.recordedTag),
      delivery,
      observedActive,
      sentAt: new Date(sentAtMs).toISOString(),
      finishedAt: new Date(finishedAtMs).toISOString(),
      polls: state.polls,
      job,
    },
  };
}

type Leaves = { kind: 'withdraw' } | { kind: 'finish'; outcome: SendOutcome };

function* fail(
  flow: FollowUpFlow,
  { type, message, details }: Failure,
  { delivered, leaves }: { delivered: Delivered; leaves: Leaves },
): Steps<Ending> {
  yield* end(flow, endOf({ type, message, delivered }), leaves);
  const { projectId, jobId } = flow.settings;
  const job = flow.state.seen?.job;
  return {
    kind: 'failure',
    type,
    message,
    details: { delivered, projectId, jobId, ...(job && { job }), ...details },
  };
}

/**
 * Shows the end, and tells the budget if it may know this follow-up. This is awaited, because a workflow says nothing
 * after its end.
 */
function* end(flow: FollowUpFlow, ended: EndedStanding, leaves: Leaves): Steps<void> {
  const { port, settings, state } = flow;
  flow.show(ended);
  if (!state.knownToBudget) return;
  const job = state.seen?.job;
  yield* port.tell({
    workflowId: port.workflowId,
    jobId: settings.jobId,
    sendNumber: state.sendNumber,
    ...leaves,
    ...(leaves.kind === 'finish' && job && !isAtWork(job) && { lastJobSeen: fingerprint(job) }),
  });
}
