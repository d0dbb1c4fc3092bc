import { CancellationScope, TemporalFailure, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import {
  followUpInputSchema,
  followUpWorkflowId,
  parseFollowUpWorkflowId,
  parseInput,
  SearchAttribute,
  type FollowUpResult,
  type FollowUpSettings,
  type InputIssue,
} from '../contract/index.js';
import { outcomeOfFailure, tellBatch } from './batch/item-end.js';
import { askAndSend } from './follow-up/ask.js';
import { FollowUpContext, mayReplaceAnotherRun } from './follow-up/context.js';
import { invalidInput } from './follow-up/endings.js';
import { poll } from './follow-up/poll.js';
import { reconcile } from './follow-up/reconcile.js';
import { newFollowUpState, type FollowUpState } from './follow-up/state.js';

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
      intervalMs: settings.poll.initialIntervalMs,
    });
  const context = new FollowUpContext(settings, state, input);
  return CancellationScope.nonCancellable(async () => {
    while (state.phase !== 'polling') {
      if (state.phase === 'asking') await askAndSend(context);
      else await reconcile(context);
    }
    return poll(context);
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
  upsertSearchAttributes([{ key: SearchAttribute.state, value: 'done' }]);
  throw invalidInput(issues);
}
