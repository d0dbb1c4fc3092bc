import {
  type Client,
  WorkflowExecutionAlreadyStartedError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';
import { ApplicationFailure, WorkflowNotFoundError } from '@temporalio/common';
import {
  addItemsUpdate,
  type BatchTotal,
  FailureType,
  followUpBatchWorkflowId,
  sealUpdate,
  WorkflowType,
} from '../contract/index.js';
import { type BatchTarget, StartedBatch } from './batch-handle.js';
import {
  checkBatch,
  type CheckedBatch,
  countInPiece,
  type StartBatchInput,
  type StartBatchOptions,
} from './batch-plan.js';
import {
  BatchEndedError,
  BatchInputDiffersError,
  FollowUpClientError,
  InvalidInputError,
  WorkerUnavailableError,
} from './errors.js';
import { callTemporal, retryWhileAway } from './temporal-call.js';
import { NO_ANSWER } from './trouble.js';

/** Memo field with the digest that tells whether two batches are the same; missing if another client started it. */
export const DIGEST_MEMO = 'inputDigest';
const DEFAULT_RECONNECT_TIMEOUT_MS = 60_000;

/** See `FollowUpClient.startBatch`. @param memo further fields of the batch's memo */
export async function startBatch(
  target: BatchTarget,
  input: StartBatchInput,
  options: StartBatchOptions = {},
  memo: Record<string, unknown> = {},
): Promise<StartedBatch> {
  const { client, taskQueue } = target;
  const plan = checkBatch(input);
  const { batchId, items } = plan;
  const workflowId = followUpBatchWorkflowId({ batchId });
  const start = () =>
    client.workflow.start(WorkflowType.followUpBatch, {
      workflowId,
      taskQueue,
      args: [plan.firstInput],
      workflowIdReusePolicy: 'REJECT_DUPLICATE',
      workflowIdConflictPolicy: 'FAIL',
      staticSummary: `Follow-ups to ${items.length} ${items.length === 1 ? 'job' : 'jobs'}`,
      memo: { ...memo, [DIGEST_MEMO]: plan.digest },
    });
  let alreadyStarted = false;
  try {
    await callTemporal(client, start, { workflowId });
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    alreadyStarted = true;
    const { memo } = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
    if (memo?.[DIGEST_MEMO] !== plan.digest) throw new BatchInputDiffersError(batchId);
  }
  const batch = new StartedBatch(target, batchId, alreadyStarted);
  if (plan.isInPieces) await handOver(target, batch, plan, options);
  return batch;
}

/** Adds the missing items piece by piece, and seals the batch. */
async function handOver(
  { client }: BatchTarget,
  batch: StartedBatch,
  { items }: CheckedBatch,
  { signal, onHandedOver, reconnectTimeoutMs = DEFAULT_RECONNECT_TIMEOUT_MS }: StartBatchOptions,
): Promise<void> {
  const retrying = <T>(call: () => Promise<T>) => retryWhileAway(call, reconnectTimeoutMs, signal);
  // The server knows a repeated update by its id, and a run that was continued as new also by the offset.
  const send = (name: string, updateId: string, args: [unknown, ...unknown[]]) =>
    retrying(() => sendUpdate(client, batch, name, { args, updateId }));
  const hasEnded = batch.alreadyStarted && (await batch.describe()).status !== 'running';
  const before = hasEnded ? { ...(await batch.result()), sealed: true } : await retrying(() => batch.status());
  if (before.sealed && before.total < items.length) {
    const what = `takes no more items: it has the first ${before.total} of ${items.length}, and no batch has the others`;
    throw new BatchEndedError(batch.batchId, {}, what);
  }
  if (before.sealed) return;
  for (let { total } = before; total < items.length;) {
    onHandedOver?.(total, items.length);
    const piece = items.slice(total, total + countInPiece(items, total));
    ({ total } = await send(addItemsUpdate.name, `items-${total}`, [piece, total]));
  }
  onHandedOver?.(items.length, items.length);
  await send(sealUpdate.name, 'seal', [items.length]);
}

async function sendUpdate(
  client: Client,
  { workflowId, batchId }: StartedBatch,
  name: string,
  update: { args: [unknown, ...unknown[]]; updateId: string },
): Promise<BatchTotal> {
  try {
    const handle = client.workflow.getHandle(workflowId);
    return await callTemporal(client, () => handle.executeUpdate(name, update), { workflowId });
  } catch (error) {
    const options = { cause: error };
    if (error instanceof WorkflowNotFoundError) throw new BatchEndedError(batchId, options);
    if (error instanceof WorkflowUpdateFailedError && error.cause instanceof ApplicationFailure) {
      const { type, message } = error.cause;
      if (type === FailureType.InvalidInput) throw new InvalidInputError([{ field: 'items', message }]);
    }
    if (error instanceof FollowUpClientError && error.cause instanceof WorkflowUpdateRPCTimeoutOrCancelledError) {
      throw new WorkerUnavailableError(workflowId, NO_ANSWER, options);
    }
    throw error;
  }
}
