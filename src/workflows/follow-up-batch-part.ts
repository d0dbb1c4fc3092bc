import { TypedSearchAttributes, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  CancellationScope,
  ChildWorkflowFailure,
  executeChild,
  getExternalWorkflowHandle,
  ParentClosePolicy,
  patched,
  setCurrentDetails,
  setHandler,
  WorkflowIdReusePolicy,
  workflowInfo,
} from '@temporalio/workflow';
import type { FlowPort } from '../batch/base-flow.js';
import { PartFlow, type PartPort } from '../batch/part-flow.js';
import { messageOf } from '../common/index.js';
import {
  type BatchCounts,
  batchItemsQuery,
  followUpBatchWorkflowId,
  type ItemOutcome,
  parseInput,
  SearchAttribute,
  WorkflowType,
} from '../contract/index.js';
import {
  ITEM_HASH_MEMO,
  outcomeOfFailure,
  outcomeOfResult,
  type PartInput,
  partOrderSignal,
  partReportSignal,
  partWorkflowId,
  sentOrderSchema,
} from '../protocol/index.js';
import { createFlowPort, findItems, pageRange, succeeds } from './batch-port.js';
import { invalidInput } from './failures.js';
import { isFirstRun } from './this-run.js';

/**
 * Runs as many items of a batch as one workflow can hold: {@link PartFlow} has the steps. It refuses to be cancelled,
 * because the batch decides, and never continues as new.
 */
export async function followUpBatchPart(input: PartInput | null): Promise<BatchCounts> {
  const { parent, workflowId } = workflowInfo();
  const isOfBatch = input && parent?.workflowId === followUpBatchWorkflowId({ batchId: input.batchId });
  if (!isOfBatch || workflowId !== partWorkflowId(input)) {
    throw invalidInput([{ field: '', message: 'only a batch may start a part: start followUpBatch' }]);
  }
  const flow: PartFlow = new PartFlow(input, parent.runId, {
    ...createFlowPort('until the next report or check', () => flow.wake()),
    ...createPort(input),
  });
  setHandler(partOrderSignal, (message) => {
    const order = parseInput(sentOrderSchema, message);
    if (order.ok) flow.receive(order.value);
  });
  setHandler(batchItemsQuery, (range) => flow.page(pageRange(range, input.first)));
  CancellationScope.current().cancelRequested.catch(() => flow.refuseCancel());
  return CancellationScope.nonCancellable(() => flow.run());
}

/**
 * Temporal's priorities run from 1 (first) to 5. Other follow-ups have the default, 3. Budgets need no priority,
 * because they have a task queue of their own.
 */
const BATCH_PRIORITY = 4;

function createPort({ batchId, first }: PartInput): Omit<PartPort, keyof FlowPort> {
  return {
    findItems,
    show: setCurrentDetails,
    reportToBatch: (report, batchRunId) => {
      const batch = getExternalWorkflowHandle(followUpBatchWorkflowId({ batchId }), batchRunId);
      return succeeds(batch.signal(partReportSignal, report));
    },
    wasReset: () => !isFirstRun() && patched('waits-for-starts'),
    // Not through the child's handle: after a reset of either workflow, such a request does not arrive.
    cancelFollowUp: (workflowId) => succeeds(getExternalWorkflowHandle(workflowId).cancel()),
    runFollowUp: async ({ position, workflowId, input, hash }) => {
      const { projectId, jobId } = input;
      const child = executeChild(WorkflowType.followUp, {
        workflowId,
        args: [input],
        workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
        // If its part is terminated, the follow-up continues, and the restarted part asks Temporal for its outcome.
        parentClosePolicy: ParentClosePolicy.ABANDON,
        priority: { priorityKey: BATCH_PRIORITY },
        staticSummary: `Follow-up to ${jobId} (${projectId}), item ${first + position + 1} of batch ${batchId}`,
        memo: { [ITEM_HASH_MEMO]: hash },
        typedSearchAttributes: new TypedSearchAttributes([
          { key: SearchAttribute.projectId, value: projectId },
          { key: SearchAttribute.jobId, value: jobId },
          { key: SearchAttribute.batchId, value: batchId },
        ]),
      });
      return outcomeOf(child);
    },
  };
}

async function outcomeOf(child: Promise<unknown>): Promise<ItemOutcome | 'used'> {
  try {
    return outcomeOfResult(await child);
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return 'used';
    if (error instanceof ChildWorkflowFailure) return outcomeOfFailure(error.cause);
    const message = `It could not be started: ${messageOf(error)}`;
    return { error: { type: 'NotStarted', message, delivered: 'no' } };
  }
}
