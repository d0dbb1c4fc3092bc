import {
  ApplicationFailure,
  CancellationScope,
  continueAsNew,
  setCurrentDetails,
  setHandler,
  TemporalFailure,
  upsertSearchAttributes,
  workflowInfo,
  type CancelledFailure,
} from '@temporalio/workflow';
import { z } from 'zod';
import {
  endOf,
  FailureType,
  followUpInputSchema,
  followUpWorkflowId,
  idSchema,
  parseFollowUpWorkflowId,
  parseInput,
  pollNowSignal,
  progressQuery,
  resolveDeliveryUpdate,
  SearchAttribute,
  stillThereSignal,
  wakeSignal,
  type FollowUpProgress,
  type FollowUpResult,
  type FollowUpSettings,
  type InputIssue,
} from '../contract/index.js';
import { describeProgress } from '../follow-up/details.js';
import { FollowUpFlow } from '../follow-up/flow.js';
import { run } from '../follow-up/run.js';
import { newFollowUpState, type FollowUpState } from '../follow-up/state.js';
import { outcomeOfFailure, tellBatch } from './batch/item-end.js';
import { failure, invalidInput } from './failures.js';
import { createFollowUpPort, drive, mayReplaceAnotherRun } from './follow-up-port.js';

/**
 * Sends one follow-up message to an agent job and sees it through to the end of the turn it starts.
 *
 * 1. Baseline: read the job.
 * 2. Ask the project's budget for a slot and the job's turn; wait and repeat from 1 until it is granted.
 * 3. Send, at most once, whatever dies.
 * 4. Where the outcome is not known: reconcile by reading the job.
 * 5. Poll until the job has a terminal status that belongs to this message.
 * 6. Tell the budget that the turn has ended.
 *
 * @param input {@link FollowUpInput} as plain JSON
 * @param carried state of the run before; only continue-as-new may give it
 * @returns the result for every terminal status; a failed agent job is a result, too
 * @throws ApplicationFailure of a `FailureType`, with `FailureDetails`; ends as Canceled only where nothing was sent
 */
export async function followUp(input: unknown, carried?: FollowUpState): Promise<FollowUpResult> {
  try {
    const result = await seeThrough(input, carried);
    await CancellationScope.nonCancellable(() => tellBatch({ status: result.status, prLink: result.prLink }));
    return result;
  } catch (error) {
    // Anything else is no end: it continues as new, or its task failed and is tried again.
    if (error instanceof TemporalFailure) {
      await CancellationScope.nonCancellable(() => tellBatch(outcomeOfFailure(error)));
    }
    throw error;
  }
}

async function seeThrough(input: unknown, carried?: FollowUpState): Promise<FollowUpResult> {
  const info = workflowInfo();
  const settings = parseSettings(input, carried !== undefined && info.continuedFromExecutionRunId === undefined);
  const state =
    carried ??
    newFollowUpState({
      startedAtMs: info.startTime.getTime(),
      isFirstRun: !mayReplaceAnotherRun() && info.continuedFromExecutionRunId === undefined,
      settings,
    });
  const flow = new FollowUpFlow(settings, state, createFollowUpPort(settings));
  let cancellation: CancelledFailure | undefined;
  // The root scope's cancellation is looked at, never thrown: a send under way is awaited to its end.
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
      return continueAsNew(input, state);
    case 'failure': {
      const { type, message, details } = ending;
      if (type === FailureType.Cancelled && details.delivered === 'no' && cancellation) throw cancellation;
      throw failure(type, message, details);
    }
  }
}

/** What others may say to a follow-up, and ask of it. */
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
  if (strangeState) issues.push({ field: 'carried', message: 'only continue-as-new may give a second argument' });
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

/** Shows a follow-up whose input is refused, as far as it says whose it is, so that it is found and understood. */
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

/** Ids of an input that breaks rules: its own where they are good, else those of the workflow id. */
function readIds(input: unknown): { projectId?: string | undefined; jobId?: string | undefined } {
  const fields = z.object({ projectId: z.unknown(), jobId: z.unknown() }).partial().safeParse(input).data;
  const parts = parseFollowUpWorkflowId(workflowInfo().workflowId);
  return {
    projectId: idSchema.safeParse(fields?.projectId).data ?? parts?.projectId,
    jobId: idSchema.safeParse(fields?.jobId).data ?? parts?.jobId,
  };
}
