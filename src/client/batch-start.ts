import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Client,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowHandle,
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
import { callTemporal, isBetweenRuns, isPassingTrouble } from './temporal-call.js';
import { NO_ANSWER } from './trouble.js';

/** Memo field with the digest that tells whether two batches are the same. */
const DIGEST_MEMO = 'inputDigest';
const RETRY_INTERVAL_MS = 1_000;
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
  }
  const batch = new StartedBatch(target, batchId, alreadyStarted);
  if (alreadyStarted && (await readDigest(target, workflowId)) !== plan.digest) {
    throw new BatchInputDiffersError(batchId);
  }
  if (plan.isInPieces) await handOver(target, batch, plan, options);
  return batch;
}

/** `undefined` if it was not started by this library. */
export async function readDigest({ client }: Pick<BatchTarget, 'client'>, workflowId: string): Promise<unknown> {
  const { memo } = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
  return memo?.[DIGEST_MEMO];
}

/** Adds the missing items piece by piece, and seals the batch. */
async function handOver(
  { client }: BatchTarget,
  batch: StartedBatch,
  { items }: CheckedBatch,
  { signal, onHandedOver, reconnectTimeoutMs = DEFAULT_RECONNECT_TIMEOUT_MS }: StartBatchOptions,
): Promise<void> {
  const retrying = <T>(call: () => Promise<T>) => retryWhileAway(call, reconnectTimeoutMs, signal);
  const send = (update: Update) => retrying(() => sendUpdate(client, batch, update));
  if (batch.alreadyStarted && (await batch.describe()).status !== 'running') return;
  const before = await retrying(() => batch.status());
  if (before.sealed) return;
  for (let { total } = before; total < items.length;) {
    onHandedOver?.(total, items.length);
    const piece = items.slice(total, total + countInPiece(items, total));
    ({ total } = await send(addItems(piece, total)));
  }
  onHandedOver?.(items.length, items.length);
  await send(seal(items.length));
}

type Update = (handle: WorkflowHandle) => Promise<BatchTotal>;

/** The server knows a repeated update by its id, and a run that was continued as new also by the offset. */
function addItems(piece: readonly unknown[], offset: number): Update {
  return (handle) => handle.executeUpdate(addItemsUpdate, { args: [[...piece], offset], updateId: `items-${offset}` });
}

function seal(total: number): Update {
  // By name: the SDK's types do not support an update whose arguments are all optional.
  return (handle) => handle.executeUpdate<BatchTotal, [number]>(sealUpdate.name, { args: [total], updateId: 'seal' });
}

async function sendUpdate(client: Client, { workflowId, batchId }: StartedBatch, update: Update): Promise<BatchTotal> {
  try {
    return await callTemporal(client, () => update(client.workflow.getHandle(workflowId)), { workflowId });
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

async function retryWhileAway<T>(call: () => Promise<T>, timeoutMs: number, signal?: AbortSignal): Promise<T> {
  const giveUpAtMs = Date.now() + timeoutMs;
  for (;;) {
    signal?.throwIfAborted();
    try {
      return await call();
    } catch (error) {
      const mayMend = error instanceof WorkerUnavailableError || isPassingTrouble(error) || isBetweenRuns(error);
      if (!mayMend || Date.now() >= giveUpAtMs) throw error;
    }
    await sleep(RETRY_INTERVAL_MS, undefined, signal ? { signal } : {});
  }
}
