import { CancellationScope, workflowInfo } from '@temporalio/workflow';
import type { PartInput } from '../batch/batch.js';
import type { Counts } from '../batch/outcome.js';
import { Part, type PartState } from '../batch/part.js';
import { followUpBatchWorkflowId } from '../contract/index.js';
import { PartRunner } from './batch/part-runner.js';
import { invalidInput } from './failures.js';

/**
 * Some of the items of a batch, as many as one workflow can hold: starts their follow-ups, as its batch orders, and
 * reports how they ended. It refuses a cancel: its batch decides.
 *
 * @param input only a batch gives it; `null` where the run is continued
 * @param carried state of the run before; only continue-as-new may give it
 */
export async function followUpBatchPart(input: PartInput | null, carried?: PartState): Promise<Counts> {
  const part = carried && isContinued() ? new Part(carried) : newPart(input);
  const runner = new PartRunner(part);
  CancellationScope.current().cancelRequested.catch(() => runner.refuseCancel());
  await CancellationScope.nonCancellable(() => runner.run());
  return part.counts();
}

function newPart(input: PartInput | null): Part {
  const { parent, workflowId } = workflowInfo();
  if (
    !input ||
    parent?.workflowId !== followUpBatchWorkflowId({ batchId: input.batchId }) ||
    workflowId !== followUpBatchWorkflowId(input)
  ) {
    throw invalidInput([{ field: '', message: 'only a batch may start a part: start followUpBatch' }]);
  }
  return Part.create(input, Date.now() + input.firstStartAfterMs);
}

function isContinued(): boolean {
  return workflowInfo().continuedFromExecutionRunId !== undefined;
}
