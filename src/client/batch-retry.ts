import type { Client } from '@temporalio/client';
import { z } from 'zod';
import { expectationOf } from '../batch/pack.js';
import {
  type BatchItem,
  type BatchStatus,
  followUpBatchWorkflowId,
  type FollowUpInput,
  followUpInputSchema,
  type RetryChoice,
  retryChoices,
} from '../contract/index.js';
import { type ExpectedItem, fillItem, type FoundItem, partItemsSchema, retryBatchId } from '../protocol/index.js';
import { readFollowUpEnd } from '../temporal/follow-up-end.js';
import { describeIfKnown, fewAtATime, isOpen, readRunStart } from '../temporal/lookups.js';
import { RefusedError } from './client-errors.js';
import type { StartBatchInput } from './hand-over.js';
import { type About, callTemporal } from './temporal.js';

/** Options of `BatchHandle.planRetry`. */
export interface PlanRetryOptions {
  /**
   * `unknown`: the delivery is unknown, so the message may be delivered twice. `failed`: the agent job failed, or the
   * message was not delivered. Other delivered messages are never sent again.
   *
   * @default both
   */
  only?: RetryChoice | undefined;
  /** Aborts the planning, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** What a retry sends. */
export interface RetryPlan {
  /** Input of the retry's batch. */
  input: StartBatchInput & { items: FollowUpInput[] };
  /** Id of the batch whose items it sends again. */
  retryOf: string;
  /** Indexes of its items in that batch, such as `0-3,7`. */
  indexes: string;
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

/** What the memo of a retry has of its plan, for the plans of later retries. */
const memoSchema = z.object({ retryOf: z.string(), indexes: z.string() });

/** What a plan asks a batch. */
export interface PlannedBatch {
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

/** See `BatchHandle.planRetry`. Simultaneous plans have the same id, so that only one of them starts. */
export async function planRetry(
  client: Client,
  batchOf: (batchId: string) => PlannedBatch,
  asked: string,
  { only, signal }: PlanRetryOptions,
): Promise<RetryPlan> {
  const root = (await readExecution(client, asked))?.retry?.retryOf ?? asked;
  const execution = await readExecution(client, root);
  if (!execution) throw new RefusedError('BatchNotFound', root);
  if (execution.isRunning) throw new RefusedError('BatchRunning', root);
  const batch = batchOf(root);
  const attempts = new Map<number, Attempt[]>();
  for await (const item of batch.list()) attempts.set(item.index, [{ batchId: root, item, isRunning: false }]);
  const id = await readRetries(client, batchOf, root, attempts);
  const { maxOpen, canary, maxFailures, notify, total } = await batch.status();
  let neverStarted = total;
  const counts = { failed: 0, unknown: 0, delivered: 0, open: 0 };
  const choices: readonly Fate[] = only ? [only] : retryChoices;
  const sent: ValidItem[] = [];
  for (const part of await batch.parts()) {
    const { size, valid } = await readItems(client, root, part);
    neverStarted -= size;
    await fewAtATime(valid, async (item) => {
      signal?.throwIfAborted();
      const attemptsOfItem = attempts.get(item.index);
      if (!attemptsOfItem) return;
      const fate = await fateOf(client, attemptsOfItem, expectationOf(item.input));
      counts[fate] += 1;
      if (choices.includes(fate)) sent.push(item);
    });
  }
  sent.sort((one, other) => one.index - other.index);
  return {
    input: { id, items: sent.map(({ input }) => input), maxOpen, canary, maxFailures, notify },
    retryOf: root,
    indexes: toRanges(sent.map(({ index }) => index)),
    unknown: only === 'failed' ? 0 : counts.unknown,
    delivered: counts.delivered,
    open: counts.open,
    neverStarted,
  };
}

/** A batch in Temporal's own records; `undefined` if it does not exist. */
async function readExecution(client: Client, batchId: string) {
  const found = await callTemporal(client, () => describeIfKnown(client, followUpBatchWorkflowId({ batchId })));
  return found && { isRunning: isOpen(found.status), retry: memoSchema.safeParse(found.memo).data };
}

/**
 * Adds the results of a batch's retries to `attempts`.
 *
 * @returns the id of the next retry, or of the last one if its items are still being added
 */
async function readRetries(
  client: Client,
  batchOf: (batchId: string) => PlannedBatch,
  root: string,
  attempts: ReadonlyMap<number, Attempt[]>,
): Promise<string> {
  for (let count = 1; ; count++) {
    const batchId = retryBatchId(root, count);
    const execution = await readExecution(client, batchId);
    if (!execution) return batchId;
    const { isRunning, retry } = execution;
    if (retry?.retryOf !== root) continue;
    const batch = batchOf(batchId);
    if (isRunning && !(await batch.status()).sealed) return batchId;
    const indexes = fromRanges(retry.indexes);
    for await (const item of batch.list()) attempts.get(indexes[item.index] ?? -1)?.push({ batchId, item, isRunning });
  }
}

type Fate = RetryChoice | 'delivered' | 'open';

const isSuccess = ({ status }: Pick<BatchItem, 'status'>): boolean => status !== undefined && status !== 'failed';

/** What became of an item in all its attempts. Temporal's current record overrides that of the batches. */
async function fateOf(client: Client, attempts: readonly Attempt[], expected: ExpectedItem): Promise<Fate> {
  if (attempts.some(({ item }) => isSuccess(item))) return 'delivered';
  const found = await Promise.all(attempts.map((attempt) => findAttempt(client, attempt, expected)));
  if (found.some(({ isOpen }) => isOpen)) return 'open';
  const outcomes = found.flatMap(({ outcome }) => outcome ?? []);
  if (outcomes.some(isSuccess)) return 'delivered';
  if (outcomes.at(-1)?.status === 'failed') return 'failed';
  const delivered = outcomes.map(({ error }) => error?.delivered);
  if (delivered.includes('yes')) return 'delivered';
  return delivered.includes('unknown') ? 'unknown' : 'failed';
}

async function findAttempt(
  client: Client,
  { batchId, item, isRunning }: Attempt,
  expected: ExpectedItem,
): Promise<FoundItem> {
  if (item.status) return { outcome: item };
  const found = await callTemporal(client, () => readFollowUpEnd(client, item.workflowId, { batchId, ...expected }));
  if (found.outcome || found.isOpen) return found;
  if (item.error) return { outcome: item };
  return isRunning ? { isOpen: true } : {};
}

interface ValidItem {
  index: number;
  input: FollowUpInput;
}

/** The size of a part, and its valid items. Invalid ones would fail again. */
async function readItems(client: Client, batchId: string, workflowId: string) {
  const about: About = { workflowId, missing: ['BatchPartNotFound', batchId] };
  const [input] = await callTemporal(client, () => readRunStart(client, workflowId), about);
  const { first, template, items } = partItemsSchema.parse(input);
  const valid = items.flatMap((item, position): ValidItem[] => {
    const filled = fillItem(item, template);
    const isValid = followUpInputSchema.safeParse(filled).success;
    return isValid ? [{ index: first + position, input: filled as FollowUpInput }] : [];
  });
  return { size: items.length, valid };
}

function toRanges(indexes: readonly number[]): string {
  const firsts = indexes.filter((index, position) => indexes[position - 1] !== index - 1);
  const lasts = indexes.filter((index, position) => indexes[position + 1] !== index + 1);
  return firsts.map((first, range) => (first === lasts[range] ? first : `${first}-${lasts[range]}`)).join(',');
}

function fromRanges(text: string): number[] {
  return text.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, offset) => first + offset);
  });
}
