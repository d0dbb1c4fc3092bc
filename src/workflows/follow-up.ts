import {
  ApplicationFailure,
  CancellationScope,
  type CancelledFailure,
  proxySinks,
  setCurrentDetails,
  setHandler,
  type Sinks,
  TemporalFailure,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { z } from 'zod';
import {
  endOf,
  FailureType,
  followUpInputSchema,
  type FollowUpProgress,
  type FollowUpResult,
  type FollowUpSettings,
  followUpWorkflowId,
  idSchema,
  type InputIssue,
  parseFollowUpWorkflowId,
  parseInput,
  pollNowSignal,
  progressQuery,
  resolveDeliveryUpdate,
  SearchAttribute,
} from '../contract/index.js';
import type { ItemOutcome } from '../batch/outcome.js';
import { stillThereSignal, wakeSignal } from '../contract/protocol.js';
import { describeProgress } from '../follow-up/details.js';
import { FollowUpFlow } from '../follow-up/flow.js';
import { run } from '../follow-up/run.js';
import { type FollowUpState, newFollowUpState } from '../follow-up/state.js';
import { failure, invalidInput, outcomeOfFailure, tellBatch } from './failures.js';
import { createFollowUpPort, drive } from './follow-up-port.js';
import { continueAsNew, isContinued, mayReplaceAnotherRun, STRANGE_STATE } from './this-run.js';

/** Where follow-ups report their ends. The worker that runs them has to register it. */
export interface FollowUpSinks extends Sinks {
  followUp: {
    /**
     * Is not called in replay.
     *
     * @param startToEndMs from the start of the first run to the end, in milliseconds
     */
    ended(outcome: ItemOutcome, startToEndMs: number): void;
  };
}

const { followUp: report } = proxySinks<FollowUpSinks>();

/**
 * Sends one follow-up message to an agent job and watches the job until the end of the turn that it starts.
 *
 * 1. Baseline: read the job.
 * 2. Ask the project's budget for a slot and the job's turn. Wait and repeat from 1 until they are granted.
 * 3. Send, at most once, whatever fails.
 * 4. If the outcome is unknown, reconcile it by reading the job.
 * 5. Poll until the job has a terminal status that belongs to this message.
 * 6. Tell the budget that the turn has ended.
 *
 * @param input {@link FollowUpInput} as plain JSON
 * @param carried state of the previous run; only continue-as-new may give it
 * @returns the result for every terminal status; a failed agent job is also a result
 * @throws ApplicationFailure of a `FailureType`, with `FailureDetails`; ends as Canceled only if nothing was sent
 */
export async function followUp(input: unknown, carried?: FollowUpState): Promise<FollowUpResult> {
  const startedAtMs = carried?.firstRunStartedAtMs ?? workflowInfo().startTime.getTime();
  const end = async (outcome: ItemOutcome): Promise<void> => {
    await CancellationScope.nonCancellable(() => tellBatch(outcome));
    if (!workflowInfo().unsafe.isReplaying) report.ended(outcome, Date.now() - startedAtMs);
  };
  try {
    const result = await seeThrough(input, carried);
    await end({ status: result.status, prLink: result.prLink });
    return result;
  } catch (error) {
    // Any other error is not an end: the workflow continues as new, or its task failed and is retried.
    if (error instanceof TemporalFailure) await end(outcomeOfFailure(error));
    throw error;
  }
}

async function seeThrough(input: unknown, carried?: FollowUpState): Promise<FollowUpResult> {
  const settings = parseSettings(input, carried !== undefined && !isContinued());
  const state =
    carried ??
    newFollowUpState({
      startedAtMs: workflowInfo().startTime.getTime(),
      isFirstRun: !mayReplaceAnotherRun() && !isContinued(),
      settings,
    });
  const flow = new FollowUpFlow(settings, state, createFollowUpPort(settings));
  let cancellation: CancelledFailure | undefined;
  // The root scope's cancellation is only noted and never thrown, so that a send under way can finish.
  CancellationScope.current().cancelRequested.catch((error: unknown) => {
    cancellation = error as CancelledFailure;
    flow.cancel();
  });
  listen(flow);
  const ending = await CancellationScope.nonCancellable(() => drive(run(flow)));
  switch (ending.kind) {
    case 'result':
      return ending.result;
    case 'continueAsNew':
      return continueAsNew<typeof followUp>(input, state);
    case 'failure': {
      const { type, message, details } = ending;
      if (type === FailureType.Cancelled && details.delivered === 'no' && cancellation) throw cancellation;
      throw failure(type, message, details);
    }
  }
}

function listen(flow: FollowUpFlow): void {
  setHandler(progressQuery, () => flow.progress());
  setHandler(pollNowSignal, () => flow.pollNow());
  setHandler(wakeSignal, () => flow.wake());
  setHandler(stillThereSignal, () => undefined);
  setHandler(resolveDeliveryUpdate, (word) => flow.resolveDelivery(word), {
    validator: (word: unknown) => {
      const message = flow.refusalOfWord(word);
      if (message === undefined) return;
      throw ApplicationFailure.create({ type: FailureType.InvalidInput, message, nonRetryable: true });
    },
  });
}

function parseSettings(input: unknown, strangeState: boolean): FollowUpSettings {
  const parsed = parseInput(followUpInputSchema, input);
  const issues: InputIssue[] = parsed.ok ? [] : [...parsed.issues];
  if (strangeState) issues.push(STRANGE_STATE);
  const { workflowId } = workflowInfo();
  const parts = parseFollowUpWorkflowId(workflowId);
  const fits =
    parts !== undefined &&
    (!parsed.ok || (parts.projectId === parsed.value.projectId && parts.jobId === parsed.value.jobId));
  if (!fits) {
    const expected = parsed.ok ? followUpWorkflowId({ ...parsed.value, key: 'KEY' }) : 'follow-up/PROJECT/JOB/KEY';
    issues.push({ field: 'workflowId', message: `must be ${expected} (given ${JSON.stringify(workflowId)})` });
  }
  if (parsed.ok && issues.length === 0) return parsed.value;
  throw refuse(input, issues);
}

/** Shows a follow-up whose input is refused, as far as its ids are known, so that people can find and understand it. */
function refuse(input: unknown, issues: InputIssue[]): ApplicationFailure {
  const refusal = invalidInput(issues);
  const { message } = refusal;
  const ended = endOf({ type: FailureType.InvalidInput, message, delivered: 'no' });
  const { projectId, jobId } = readIds(input);
  upsertSearchAttributes([
    ...(projectId === undefined ? [] : [{ key: SearchAttribute.projectId, value: projectId }]),
    ...(jobId === undefined ? [] : [{ key: SearchAttribute.jobId, value: jobId }]),
    { key: SearchAttribute.state, value: ended.state },
  ]);
  if (projectId !== undefined && jobId !== undefined) {
    const learnedAt = new Date().toISOString();
    const progress: FollowUpProgress = { projectId, jobId, ...ended, learnedAt, polls: 0 };
    setHandler(progressQuery, () => progress);
    setCurrentDetails(describeProgress(progress, workflowInfo().workflowId, Date.now()));
  }
  return refusal;
}

/** Ids of an invalid input: its own if they are valid, otherwise those of the workflow id. */
function readIds(input: unknown): { projectId?: string | undefined; jobId?: string | undefined } {
  const fields = z.object({ projectId: z.unknown(), jobId: z.unknown() }).partial().safeParse(input).data;
  const parts = parseFollowUpWorkflowId(workflowInfo().workflowId);
  return {
    projectId: idSchema.safeParse(fields?.projectId).data ?? parts?.projectId,
    jobId: idSchema.safeParse(fields?.jobId).data ?? parts?.jobId,
  };
}
