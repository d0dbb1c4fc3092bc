import type { Client } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { z } from 'zod';
import { expectationOf } from '../batch/pack.js';
import {
  type BatchItem,
  type BatchStatus,
  type FollowUpInput,
  followUpInputSchema,
  parseInput,
  type RetryChoice,
} from '../contract/index.js';
import { type ExpectedItem, fillItem, type FoundItem, partItemsSchema, retryBatchId } from '../protocol/index.js';
import { readFollowUpEnd } from '../temporal/follow-up-end.js';
import { fewAtATime, readRunStart } from '../temporal/lookups.js';
import { FollowUpFailedError, RefusedError } from './client-errors.js';
import type { StartBatchInput } from './hand-over.js';
import { callTemporal, type ExecutionStatus } from './temporal.js';

/** Options of `BatchHandle.retry`. */
export interface RetryOptions {
  /**
   * `unknown`: the delivery is unknown, so the message may be delivered twice. `failed`: the agent job failed, or the
   * message was not delivered. Other delivered messages are never sent again.
   *
   * @default both
   */
  only?: RetryChoice | undefined;
  /** A result of `planRetry`. @default a new plan */
  plan?: RetryPlan | undefined;
}

/** Options of `BatchHandle.planRetry`. */
export interface PlanRetryOptions extends Pick<RetryOptions, 'only'> {
  /** Aborts the planning, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** What a retry would send. */
export interface RetryPlan {
  /** Input of the retry's batch. */
  input: StartBatchInput;
  /** Memo of that batch, which has the items of the next retry. */
  memo: RetryMemo;
  /** Items that may have been delivered, and would then be delivered twice. */
  unknown: number;
  /** Omitted items that are delivered. */
  delivered: number;
  /** Omitted items whose follow-ups still run. */
  open: number;
  /**
   * Omitted last items of a batch that was terminated while it started. No workflow has them; send them as a new batch.
   */
  neverStarted: number;
}

/** Memo of a retry. */
export interface RetryMemo extends Record<string, unknown> {
  retryOf: string;
  /** Indexes of its items in that batch, such as `0-3,7`. */
  indexes: string;
}

const retryMemoSchema = z.object({ retryOf: z.string(), indexes: z.string().regex(/^\d+(-\d+)?(,\d+(-\d+)?)*$/) });

export function readRetryMemo(memo: Record<string, unknown> | undefined): RetryMemo | undefined {
  return retryMemoSchema.safeParse(memo).data;
}

/** What a plan reads of a batch. */
interface PlannedBatch {
  describe(): Promise<{ status: ExecutionStatus; retry?: RetryMemo }>;
  status(): Promise<BatchStatus>;
  list(): AsyncIterable<BatchItem>;
  parts(): Promise<string[]>;
}

/** A follow-up of an item, with its batch's record of it. */
interface Attempt {
  batchId: string;
  item: BatchItem;
  /** Whether its batch runs, so that an item will still get its outcome. */
  isRunning: boolean;
}

/**
 * Plans the next retry of a batch: `nightly-retry-1`, then `nightly-retry-2`. Simultaneous plans have the same id, so
 * that only one of them starts.
 *
 * @throws RefusedError if the batch runs, or has nothing to retry; FollowUpFailedError if Temporal no longer keeps the
 *   items
 */
export async function planRetry(
  client: Client,
  handleOf: (batchId: string) => PlannedBatch,
  asked: string,
  { only, signal }: PlanRetryOptions,
): Promise<RetryPlan> {
  const root = (await handleOf(asked).describe()).retry?.retryOf ?? asked;
  const batch = handleOf(root);
  if ((await batch.describe()).status === 'running') throw new RefusedError('BatchRunning', root);
  const attempts = new Map<number, Attempt[]>();
  for await (const item of batch.list()) attempts.set(item.index, [{ batchId: root, item, isRunning: false }]);
  const id = await readRetries(handleOf, root, attempts);
  const { maxOpen, canary, maxFailures, notify, total } = await batch.status();
  const plan = { unknown: 0, delivered: 0, open: 0, neverStarted: total };
  const found: { index: number; input: FollowUpInput }[] = [];
  for (const part of await batch.parts()) {
    const { size, items } = await readItems(client, part);
    plan.neverStarted -= size;
    await fewAtATime(items, async ({ index, input }) => {
      signal?.throwIfAborted();
      const standing = await standingOf(client, attempts.get(index) ?? [], expectationOf(input));
      const isLeftOut = standing === (only === 'unknown' ? 'send' : only === 'failed' ? 'unknown' : 'done');
      if (standing === 'done' || isLeftOut) return;
      if (standing !== 'send') plan[standing] += 1;
      if (standing === 'send' || standing === 'unknown') found.push({ index, input });
    });
  }
  if (found.length === 0) throw new RefusedError('NothingToRetry', root, { why: whyNothing(plan) });
  found.sort((one, other) => one.index - other.index);
  const input = { id, items: found.map((item) => item.input), maxOpen, canary, maxFailures, notify };
  return { input, memo: { retryOf: root, indexes: toRanges(found.map(({ index }) => index)) }, ...plan };
}

function whyNothing({ delivered, open, neverStarted }: Omit<RetryPlan, 'input' | 'memo'>): string {
  const reasons = [
    delivered > 0 ? `${delivered} ${delivered === 1 ? 'is' : 'are'} already delivered` : '',
    open > 0 ? `the follow-ups of ${open} still run` : '',
    neverStarted > 0 ? `the last ${neverStarted} were never started: send them as a new batch` : '',
  ];
  return reasons.filter(Boolean).join(', ');
}

/**
 * Adds the results of a batch's retries to `attempts`.
 *
 * @returns the id of the next retry, or of the last one if its items are still being added
 */
async function readRetries(
  handleOf: (batchId: string) => PlannedBatch,
  root: string,
  attempts: Map<number, Attempt[]>,
): Promise<string> {
  for (let count = 1; ; count++) {
    const id = retryBatchId(root, count);
    const handle = handleOf(id);
    const execution = await handle.describe().catch((error: unknown) => {
      if (RefusedError.is(error, 'BatchNotFound')) return undefined;
      throw error;
    });
    if (!execution) return id;
    if (execution.retry?.retryOf !== root) continue;
    const isRunning = execution.status === 'running';
    if (isRunning && !(await handle.status()).sealed) return id;
    const indexes = fromRanges(execution.retry.indexes);
    for await (const item of handle.list()) {
      attempts.get(indexes[item.index] ?? -1)?.push({ batchId: id, item, isRunning });
    }
  }
}

/** What a retry does with an item. Temporal's current record overrides that of the batches. */
async function standingOf(
  client: Client,
  attempts: readonly Attempt[],
  expected: ExpectedItem,
): Promise<'send' | 'unknown' | 'delivered' | 'open' | 'done'> {
  const last = attempts.at(-1);
  if (!last || (last.item.status && last.item.status !== 'failed')) return 'done';
  const found = await Promise.all(attempts.map((attempt) => findAttempt(client, attempt, expected)));
  if (found.some(({ isOpen }) => isOpen)) return 'open';
  const outcomes = found.flatMap(({ outcome }) => (outcome ? [outcome] : []));
  if (outcomes.some(({ status }) => status !== undefined && status !== 'failed')) return 'delivered';
  if (outcomes.at(-1)?.status === 'failed') return 'send';
  const delivered = outcomes.flatMap(({ error }) => (error ? [error.delivered] : []));
  if (delivered.includes('yes')) return 'delivered';
  return delivered.includes('unknown') ? 'unknown' : 'send';
}

async function findAttempt(
  client: Client,
  { batchId, item, isRunning }: Attempt,
  expected: ExpectedItem,
): Promise<FoundItem> {
  const { workflowId, status, error } = item;
  const reported: FoundItem = (status ?? error) ? { outcome: item } : {};
  if (status || workflowId === '') return reported;
  const found = await callTemporal(client, () => readFollowUpEnd(client, workflowId, { batchId, ...expected }));
  if (found.outcome || found.isOpen) return found;
  return reported.outcome || !isRunning ? reported : { isOpen: true };
}

/** The size of a part, and its valid items. Invalid ones would fail again. */
async function readItems(client: Client, workflowId: string) {
  const start = await callTemporal(client, () => readRunStart(client, workflowId)).catch((cause: unknown) => {
    if (!(cause instanceof WorkflowNotFoundError)) throw cause;
    const message = `the input of ${workflowId} cannot be read: Temporal no longer keeps it`;
    throw new FollowUpFailedError(workflowId, 'Unexpected', message, { delivered: 'unknown' }, { cause });
  });
  const { first, template, items } = partItemsSchema.parse(start[0]);
  const valid = items.flatMap((item, position) => {
    const input = fillItem(item, template);
    const isValid = parseInput(followUpInputSchema, input).ok;
    return isValid ? [{ index: first + position, input: input as FollowUpInput }] : [];
  });
  return { size: items.length, items: valid };
}

function toRanges(indexes: readonly number[]): string {
  const ranges: [from: number, to: number][] = [];
  for (const index of indexes) {
    const last = ranges.at(-1);
    if (last && index === last[1] + 1) last[1] = index;
    else ranges.push([index, index]);
  }
  return ranges.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(',');
}

function fromRanges(text: string): number[] {
  return text.split(',').flatMap((range) => {
    const [from = 0, to = from] = range.split('-').map(Number);
    return Array.from({ length: to - from + 1 }, (_, offset) => from + offset);
  });
}
