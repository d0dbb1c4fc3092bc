import { ApplicationFailure, type TemporalFailure } from '@temporalio/workflow';
import {
  FailureType,
  type AgentJob,
  type Delivered,
  type FailureDetails,
  type FollowUpResult,
  type InputIssue,
  type SendOutcome,
} from '../../contract/index.js';
import { describeIssues } from '../../contract/validation.js';
import type { FollowUpContext } from './context.js';

/** A typed failure whose first detail says truly whether the message was delivered. */
export function failure(type: FailureType, message: string, details: FailureDetails): ApplicationFailure {
  return ApplicationFailure.create({ type, message, nonRetryable: true, details: [details] });
}

/** Input that breaks rules: nothing was sent. */
export function invalidInput(issues: InputIssue[]): ApplicationFailure {
  return failure(FailureType.InvalidInput, `Invalid input: ${describeIssues(issues)}`, { delivered: 'no', issues });
}

/** Ends a follow-up that was not sent. Where an earlier send of it ended unknown, `no` would be a lie. */
export async function endUnsent(
  context: FollowUpContext,
  type: FailureType,
  message: string,
  proven: boolean,
  details: Pick<FailureDetails, 'issues'> = {},
): Promise<TemporalFailure> {
  const delivered: Delivered = proven && !context.state.earlierSendUnknown ? 'no' : 'unknown';
  await end(context, 'withdraw');
  if (type === FailureType.Cancelled && delivered === 'no' && context.cancellation) return context.cancellation;
  return failure(type, message, detailsOf(context, { delivered, ...details }));
}

/** Ends a follow-up whose message was granted a send. */
export async function endSent(
  context: FollowUpContext,
  type: FailureType,
  message: string,
  details: Partial<FailureDetails> & { delivered: Delivered },
  outcome: SendOutcome,
): Promise<TemporalFailure> {
  await end(context, 'finish', outcome);
  return failure(type, message, detailsOf(context, details));
}

/** Ends a follow-up whose job has ended its turn. */
export async function endWithResult(
  context: FollowUpContext,
  job: AgentJob & { status: FollowUpResult['status'] },
): Promise<FollowUpResult> {
  const { settings, state } = context;
  const delivery = state.delivery ?? 'assumed';
  const finishedAtMs = Date.now();
  await end(context, 'finish', delivery === 'sent' ? 'sent' : 'unknown');
  const prLink = job.prLink ?? null;
  return {
    projectId: settings.projectId,
    jobId: settings.jobId,
    status: job.status,
    prLink,
    prLinkChanged: prLink !== (state.baseline?.prLink ?? null),
    delivery,
    observedActive: state.observedActive,
    sentAt: new Date(state.sentAtMs ?? finishedAtMs).toISOString(),
    finishedAt: new Date(finishedAtMs).toISOString(),
    polls: state.polls,
    job,
  };
}

async function end(context: FollowUpContext, how: 'finish' | 'withdraw', outcome?: SendOutcome): Promise<void> {
  context.show('done');
  await context.leave(how, outcome);
}

function detailsOf(context: FollowUpContext, details: FailureDetails): FailureDetails {
  const job = context.lastJob();
  return {
    projectId: context.settings.projectId,
    jobId: context.settings.jobId,
    ...(job && { job }),
    ...details,
  };
}
