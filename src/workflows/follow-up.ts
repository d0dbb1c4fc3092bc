import {
  ApplicationFailure,
  CancellationScope,
  type CancelledFailure,
  metricMeter,
  setHandler,
  TemporalFailure,
  workflowInfo,
} from '@temporalio/workflow';
import { z } from 'zod';
import { defined } from '../common/index.js';
import {
  type Delivered,
  endOf,
  FailureType,
  type FollowUpResult,
  type FollowUpSettings,
  type ItemOutcome,
  notifySchema,
  parseFollowUpWorkflowId,
  parseInput,
  pollNowSignal,
  progressQuery,
  resolveDeliveryUpdate,
  SearchAttribute,
} from '../contract/index.js';
import { Failed } from '../follow-up/failed.js';
import { FollowUp } from '../follow-up/flow.js';
import { outcomeOfFailure, replySignal, signalledReplySchema, wakeSignal } from '../protocol/index.js';
import { failure } from './failures.js';
import { createPort } from './follow-up-port.js';
import { findTargets, notify } from './follow-up-webhook.js';
import { readIds, readInput } from './read-input.js';

/**
 * Sends one follow-up message to an agent job and watches the job until the turn that it starts has ended: {@link
 * FollowUp} has the steps.
 *
 * @param input {@link FollowUpInput} as plain JSON
 * @returns the result for every terminal status, also for a failed agent job
 * @throws ApplicationFailure of a {@link FailureType}, with `FailureDetails`; ends as Canceled only if nothing was delivered
 */
export async function followUp(input: unknown): Promise<FollowUpResult> {
  const { targets, issues } = await findTargets(targetsOf(input));
  let result: FollowUpResult;
  try {
    result = await runFlow(await readInput(input, issues));
  } catch (error) {
    // Any other error fails the workflow task, which is retried.
    if (!(error instanceof TemporalFailure)) throw error;
    const outcome = outcomeOfFailure(error);
    await reportEnd(outcome, outcome.error?.delivered ?? 'unknown', input, targets);
    throw error;
  }
  const { status, prLink, delivery } = result;
  await reportEnd({ status, prLink }, delivery === 'assumed' ? 'unknown' : 'yes', input, targets);
  return result;
}

async function runFlow(settings: FollowUpSettings): Promise<FollowUpResult> {
  const flow = new FollowUp(settings, createPort(settings));
  let cancellation: CancelledFailure | undefined;
  // A cancel is recorded instead of thrown, so that a send in progress can finish and the budget learns of it.
  CancellationScope.current().cancelRequested.catch((error: unknown) => {
    cancellation = error as CancelledFailure;
    flow.cancel();
  });
  setHandler(progressQuery, () => flow.progress(), { description: 'State, place in line, job and last error' });
  setHandler(pollNowSignal, () => flow.pollNow(), { description: 'Polls the job now' });
  setHandler(wakeSignal, () => flow.wake());
  setHandler(replySignal, (reply: unknown) => {
    const parsed = parseInput(signalledReplySchema, reply);
    if (parsed.ok) flow.receive(parsed.value);
  });
  setHandler(resolveDeliveryUpdate, (decision) => flow.resolveDelivery(decision), {
    description: 'Only while it is reconciling: "sent" or "notSent"',
    validator: (decision: unknown) => {
      const message = flow.issueWithDecision(decision);
      if (message === undefined) return;
      throw ApplicationFailure.create({ type: FailureType.InvalidInput, message, nonRetryable: true });
    },
  });
  try {
    return await CancellationScope.nonCancellable(() => flow.run());
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    const { type, message, delivered, details } = error;
    if (type === FailureType.Cancelled && delivered === 'no' && cancellation) throw cancellation;
    const { projectId, jobId } = settings;
    const { job } = flow.progress();
    throw failure(type, message, { delivered, projectId, jobId, ...(job && { job }), ...details });
  }
}

/** Counts the end, and notifies the webhook targets. */
async function reportEnd(
  { status, prLink, error }: ItemOutcome,
  delivered: Delivered,
  input: unknown,
  targets: readonly string[],
): Promise<void> {
  const { type = 'Other', message = '' } = error ?? {};
  const { state } = status === undefined ? endOf({ type: type as FailureType, message, delivered }) : endOf({ status });
  const { workflowId, startTime, typedSearchAttributes } = workflowInfo();
  const seconds = (Date.now() - startTime.getTime()) / 1_000;
  metricMeter
    .createCounter('follow_up_ended', undefined, 'Follow-ups that ended, by state and failure type')
    .add(1, { state, failure: status === undefined ? type : 'none' });
  metricMeter
    .createHistogram('follow_up_start_to_end', 'float', 'seconds', 'Time from the start of a follow-up to its end')
    .record(Math.max(0, seconds), { state });
  const ids = readIds(input, parseFollowUpWorkflowId(workflowId));
  const batchId = typedSearchAttributes.get(SearchAttribute.batchId);
  const end = { workflowId, ...ids, batchId, state, status, prLink, delivered, failure: error?.type };
  await notify(targets, { type: 'follow-up.ended', data: defined(end) });
}

/** The webhook targets of an input, also of one that is refused for other fields. */
function targetsOf(input: unknown): string[] {
  return z.object({ notify: notifySchema }).safeParse(input).data?.notify ?? [];
}
