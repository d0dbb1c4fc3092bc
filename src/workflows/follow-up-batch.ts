import { TypedSearchAttributes, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  allHandlersFinished,
  CancellationScope,
  ChildWorkflowCancellationType,
  currentUpdateInfo,
  getExternalWorkflowHandle,
  metricMeter,
  ParentClosePolicy,
  setCurrentDetails,
  setHandler,
  startChild,
  upsertSearchAttributes,
  WorkflowIdReusePolicy,
  workflowInfo,
} from '@temporalio/workflow';
import type { FlowPort } from '../batch/base-flow.js';
import { Batch } from '../batch/batch.js';
import { BatchFlow, type BatchPort } from '../batch/batch-flow.js';
import type { BatchState } from '../batch/batch-state.js';
import { tooManyParts } from '../batch/pack.js';
import { defined } from '../common/index.js';
import {
  addItemsUpdate,
  batchItemsQuery,
  type BatchItemsRange,
  batchStatusQuery,
  continueBatchUpdate,
  DEFAULT_MAX_OPEN,
  type FollowUpBatchResult,
  type InputIssue,
  parseFollowUpBatchWorkflowId,
  parseInput,
  sealUpdate,
  SearchAttribute,
  WorkflowType,
} from '../contract/index.js';
import {
  batchPartsQuery,
  parseUncheckedBatchInput,
  partOrderSignal,
  partReportSchema,
  partReportSignal,
  partWorkflowId,
  templateOf,
  unfilledItemsOf,
} from '../protocol/index.js';
import { createFlowPort, findPart, pageRange, succeeds } from './batch-port.js';
import { accept, invalidInput } from './failures.js';
import { findTargets, notify } from './follow-up-webhook.js';
import { continueAsNew, hasCarriedState, isNextRunDue } from './this-run.js';

/**
 * Runs many follow-ups with bounded concurrency, one at a time for each job, and returns an outcome for every item. Its
 * parts, which are workflows of their own, hold the items and start the follow-ups, so that histories and payloads stay
 * well below their limits. {@link BatchFlow} has the steps.
 *
 * A cancelled batch also returns a result: it withdraws the items that have not started, cancels the open ones, and
 * says for each item whether its message was delivered.
 *
 * @param input {@link FollowUpBatchInput} as plain JSON; `null` in a continued run
 * @param carried state of the previous run, which only continue-as-new may pass
 * @throws ApplicationFailure `InvalidInput` if the batch itself is invalid; an invalid item fails alone
 */
export async function followUpBatch(input: unknown, carried?: BatchState): Promise<FollowUpBatchResult> {
  const before = hasCarriedState() ? carried : undefined;
  const batch = before ? new Batch(before) : newBatch(input);
  const flow: BatchFlow = new BatchFlow(batch, {
    ...createFlowPort('until the next check of the parts', () => flow.wake()),
    ...createPort(batch),
  });
  handleMessages(flow);
  CancellationScope.current().cancelRequested.catch(() => flow.change(() => batch.cancel()));
  const { batchId, notify: targets = [] } = batch.state;
  if (!before) refuse(...(await findTargets(targets)).issues);
  const result = await CancellationScope.nonCancellable(() => flow.run());
  const { items: _items, truncated: _truncated, ...counts } = result;
  const data = { workflowId: workflowInfo().workflowId, batchId, ...counts };
  await notify(targets, { type: 'batch.ended', data });
  return result;
}

function newBatch(input: unknown): Batch {
  const { workflowId, startTime } = workflowInfo();
  const { batchId, part } = parseFollowUpBatchWorkflowId(workflowId) ?? {};
  if (batchId === undefined || part !== undefined) {
    const message = `must be follow-up-batch/BATCH, with at most 120 characters for BATCH (given ${JSON.stringify(workflowId)})`;
    throw invalidInput([{ field: 'workflowId', message }]);
  }
  const unchecked = accept(parseUncheckedBatchInput(input));
  refuse(tooManyParts(unchecked));
  const { maxOpen, canary, maxFailures, notify, open } = unchecked;
  upsertSearchAttributes([{ key: SearchAttribute.batchId, value: batchId }]);
  const start = {
    batchId,
    maxOpen: maxOpen ?? DEFAULT_MAX_OPEN,
    ...defined({
      canary: canary ?? undefined,
      maxFailures: maxFailures ?? undefined,
      notify: notify ?? undefined,
    }),
    template: templateOf(unchecked),
    sealed: open !== true,
    startedAtMs: startTime.getTime(),
  };
  return Batch.create(start, unfilledItemsOf(unchecked));
}

function handleMessages(flow: BatchFlow): void {
  const { batch } = flow;
  setHandler(
    addItemsUpdate,
    // A cancel ends the accepted items but not this update.
    (items, offset) =>
      CancellationScope.nonCancellable(async () => ({ total: await flow.add(items, offset ?? undefined, updateId()) })),
    {
      description: 'Adds items to a batch that was started with open: true',
      validator: (items: unknown, offset?: unknown) => refuse(batch.issueWith(items, offset, updateId())),
    },
  );
  setHandler(sealUpdate, () => ({ total: flow.change(() => batch.seal()) }), {
    description: 'Declares the list complete',
    validator: (given?: unknown) => {
      const { total } = batch.state;
      const isRight = given === undefined || given === null || given === total;
      const message = `must be ${total}, the number of items so far (given ${JSON.stringify(given)})`;
      refuse(isRight ? undefined : { field: 'total', message });
    },
  });
  setHandler(continueBatchUpdate, () => ({ hold: flow.change(() => batch.proceed()) }), {
    description: 'Continues a held batch',
    validator: () => refuse(batch.canProceed ? undefined : { field: '', message: 'the batch is not held' }),
  });
  setHandler(partReportSignal, (message) => {
    const report = parseInput(partReportSchema, message);
    if (report.ok) flow.receive(report.value);
  });
  setHandler(batchStatusQuery, () => batch.status(), { description: 'Counts of the items by state' });
  setHandler(batchPartsQuery, () => batch.partIds());
  const page = (range?: BatchItemsRange | null) => {
    const { offset, limit } = pageRange(range, 0);
    return batch.page(offset, limit);
  };
  setHandler(batchItemsQuery, page, { description: 'Items from offset on, at most limit' });
}

/** Each piece is in the history twice, and clients with the default limit cannot read a page of more than 4 MiB. */
const MAX_HISTORY_BYTES = 2 * 1_024 * 1_024;

function createPort(batch: Batch): Omit<BatchPort, keyof FlowPort> {
  const { batchId, hold: carried, notify: targets = [] } = batch.state;
  let shownSince = carried?.at;
  return {
    isReplying: () => !allHandlersFinished(),
    // Safe at any time: if the server repeats an update on the next run, that run recognises its id.
    isNextRunDue: () => isNextRunDue() || workflowInfo().historySize > MAX_HISTORY_BYTES,
    continueAsNew: (next) => continueAsNew<typeof followUpBatch>(null, next),
    findPart,
    sendOrder: (workflowId, order) => {
      const { runId: batchRunId } = workflowInfo();
      return succeeds(getExternalWorkflowHandle(workflowId).signal(partOrderSignal, { ...order, batchRunId }));
    },
    startPart: async (input) => {
      const { first, items, again } = input;
      try {
        const child = await startChild(WorkflowType.followUpBatchPart, {
          workflowId: partWorkflowId(input),
          args: [input],
          workflowIdReusePolicy:
            again === undefined ? WorkflowIdReusePolicy.REJECT_DUPLICATE : WorkflowIdReusePolicy.ALLOW_DUPLICATE,
          parentClosePolicy: ParentClosePolicy.ABANDON,
          cancellationType: ChildWorkflowCancellationType.ABANDON,
          staticSummary: `Items ${first + 1} to ${first + items.length} of batch ${batchId}`,
          typedSearchAttributes: new TypedSearchAttributes([{ key: SearchAttribute.batchId, value: batchId }]),
        });
        return { ended: succeeds(child.result()) };
      } catch (error) {
        if (error instanceof WorkflowExecutionAlreadyStartedError) return 'used';
        throw error;
      }
    },
    show: (details, hold) => {
      setCurrentDetails(details);
      if (shownSince === hold?.at) return;
      shownSince = hold?.at;
      upsertSearchAttributes([{ key: SearchAttribute.state, value: hold ? 'held' : null }]);
      if (!hold) return;
      const data = { ...batch.status(), hold, workflowId: workflowInfo().workflowId };
      void notify(targets, { type: 'batch.held', data });
      metricMeter
        .createCounter('follow_up_batch_holds', undefined, 'Batches that were held, by the option that held them')
        .add(1, { name: hold.name });
    },
  };
}

function refuse(...issues: (InputIssue | undefined)[]): void {
  const found = issues.filter((issue) => issue !== undefined);
  if (found.length > 0) throw invalidInput(found);
}

function updateId(): string {
  return currentUpdateInfo()?.id ?? '';
}
