import { CancellationScope, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { Batch, type BatchState } from '../batch/batch.js';
import { jsonBytes, MAX_PARTS, partSizes, tooManyParts } from '../batch/pack.js';
import {
  DEFAULT_MAX_OPEN,
  parseFollowUpBatchWorkflowId,
  parseUncheckedBatchInput,
  SearchAttribute,
  unfilledItemsOf,
  templateOf,
  type FollowUpBatchResult,
  type InputIssue,
} from '../contract/index.js';
import { BatchRunner } from './batch/batch-runner.js';
import { invalidInput } from './follow-up/endings.js';

/**
 * Many follow-ups: a bounded number open at a time, items of one job one after another, one outcome for every item. The
 * items are held by parts, workflows of their own, so that neither a history nor a payload nears its limits.
 *
 * A cancel ends it, too, with a result: what was not started is withdrawn, what is open is cancelled, and each item says
 * whether its message was delivered.
 *
 * @param input {@link FollowUpBatchInput} as plain JSON; `null` where the run is continued
 * @param carried state of the run before; only continue-as-new may give it
 * @throws ApplicationFailure `InvalidInput`, where the batch itself is wrong; a bad item is an error of that item alone
 */
export async function followUpBatch(input: unknown, carried?: BatchState): Promise<FollowUpBatchResult> {
  const isContinued = workflowInfo().continuedFromExecutionRunId !== undefined;
  const batch = carried && isContinued ? new Batch(carried) : newBatch(input, carried !== undefined);
  const runner = new BatchRunner(batch);
  return CancellationScope.nonCancellable(() => runner.run());
}

function newBatch(input: unknown, strangeState: boolean): Batch {
  const { workflowId, startTime } = workflowInfo();
  const parsed = parseUncheckedBatchInput(input);
  const issues: InputIssue[] = parsed.ok ? [] : [...parsed.issues];
  if (strangeState) issues.push({ field: 'carried', message: 'only continue-as-new may give a second argument' });
  const ids = parseFollowUpBatchWorkflowId(workflowId);
  if (ids?.part !== undefined || !ids) {
    const message = `must be follow-up-batch/BATCH, with at most 120 characters for BATCH (given ${JSON.stringify(workflowId)})`;
    issues.push({ field: 'workflowId', message });
  }
  if (!parsed.ok || !ids || issues.length > 0) throw invalidInput(issues);
  const { batchId } = ids;
  const [items, template] = [unfilledItemsOf(parsed.value), templateOf(parsed.value)];
  if (partSizes(items.map(jsonBytes), jsonBytes(template)).length > MAX_PARTS) {
    throw invalidInput([tooManyParts(parsed.value)]);
  }
  upsertSearchAttributes([{ key: SearchAttribute.batchId, value: batchId }]);
  return Batch.create({
    batchId,
    maxOpen: parsed.value.maxOpen ?? DEFAULT_MAX_OPEN,
    template,
    sealed: parsed.value.open !== true,
    startedAtMs: startTime.getTime(),
    items,
  });
}
