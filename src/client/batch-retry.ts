import type { Client } from '@temporalio/client';
import {
  type BatchItem,
  type BatchStatus,
  followUpBatchWorkflowId,
  type FollowUpInput,
  followUpInputSchema,
  parseInput,
} from '../contract/index.js';
import type { StartBatchInput } from './batch-plan.js';
import { NothingToRetryError, UnexpectedOutcomeError } from './errors.js';
import { LookUp, readPartItems } from './outcome-lookup.js';
import { fewAtATime } from './temporal-call.js';
import { type RetryChoice } from '../contract/choices.js';

/** Options of `retry`. */
export interface RetryOptions {
  /**
   * `unknown`: nobody can tell whether the message was delivered, so it may be delivered a second time. `failed`: the
   * agent job failed, or the message was not delivered. No other delivered message is sent again.
   *
   * @default both
   */
  only?: RetryChoice | undefined;
}

/** What a retry would send. */
export interface RetryPlan {
  /** Input for `startBatch`. */
  input: StartBatchInput;
  /** How many of the items may have been delivered, and would then be delivered a second time. */
  unknown: number;
  /** Left out: their own results, or their budget, show that they were delivered. */
  delivered: number;
  /** Left out: their follow-ups still run. */
  open: number;
}

/** What is read of the batch that is retried. */
interface EndedBatch {
  batchId: string;
  workflowId: string;
  list: () => AsyncIterable<BatchItem>;
  status: () => Promise<Pick<BatchStatus, 'maxOpen' | 'parts'>>;
}

/**
 * The batch that retries the failed items of another one. Its id is derived from the other's id and from
 * `only`: `nightly` is retried as `nightly-retry-1`, that as `nightly-retry-2`, and with `only` as
 * `nightly-retry-unknown-1`; so a repeated retry is the same batch and sends nothing twice. The outcome of an
 * item is looked up first if the batch does not know it for certain.
 *
 * @param batch an ended batch
 * @throws NothingToRetryError, UnexpectedOutcomeError if Temporal no longer keeps the items
 */
export async function planRetry(client: Client, batch: EndedBatch, { only }: RetryOptions): Promise<RetryPlan> {
  const { batchId } = batch;
  const candidates: BatchItem[] = [];
  for await (const item of batch.list()) if (isRetried(item, only)) candidates.push(item);
  const lookUp = new LookUp(client);
  const chosen = new Set<number>();
  const plan = { unknown: 0, delivered: 0, open: 0 };
  await fewAtATime(candidates, async (item) => {
    const standing = await standingOf(lookUp, batchId, item, only);
    if (standing === 'send' || standing === 'unknown') chosen.add(item.index);
    if (standing !== 'send') plan[standing] += 1;
  });
  if (chosen.size === 0) throw new NothingToRetryError(batchId, plan);
  const { maxOpen, parts } = await batch.status();
  const items: FollowUpInput[] = [];
  for (let part = 0; part < parts; part++) items.push(...(await readItems(client, batchId, part, chosen)));
  if (items.length === 0) throw new NothingToRetryError(batchId, plan);
  return { input: { id: retryId(batchId, only), items, maxOpen }, ...plan };
}

/** What a retry does with a candidate. Newer knowledge overrides what the batch knew. */
async function standingOf(
  lookUp: LookUp,
  batchId: string,
  { workflowId, error: told }: BatchItem,
  only: RetryChoice | undefined,
): Promise<'send' | 'unknown' | 'delivered' | 'open'> {
  if (!told || workflowId === '') return 'send';
  const { isOpen, outcome } = await lookUp.followUp(workflowId, { batchId });
  if (isOpen) return 'open';
  if (outcome?.status === 'failed') return only === 'unknown' ? 'delivered' : 'send';
  if (outcome?.status !== undefined) return 'delivered';
  const delivered = outcome?.error?.delivered ?? told.delivered;
  if (delivered === 'yes') return 'delivered';
  return delivered === 'no' ? 'send' : 'unknown';
}

/** Whether a retry sends an item again. */
function isRetried({ status, error }: BatchItem, only?: RetryChoice): boolean {
  const delivered = error?.delivered;
  if (delivered === 'unknown') return only !== 'failed';
  return (status === 'failed' || delivered === 'no') && only !== 'unknown';
}

/** Id of the batch that retries another one. */
function retryId(batchId: string, only?: RetryChoice): string {
  const suffix = only === undefined ? '-retry-' : `-retry-${only}-`;
  const at = batchId.lastIndexOf(suffix);
  const count = at > 0 ? batchId.slice(at + suffix.length) : '';
  return /^[1-9]\d{0,5}$/.test(count) ? `${batchId.slice(0, at)}${suffix}${Number(count) + 1}` : `${batchId}${suffix}1`;
}

/** The chosen items of a part that have a valid input. An invalid item would fail again. */
async function readItems(
  client: Client,
  batchId: string,
  part: number,
  chosen: ReadonlySet<number>,
): Promise<FollowUpInput[]> {
  const workflowId = followUpBatchWorkflowId({ batchId, part });
  const { first, template, items } = await readPartItems(client, workflowId).then(
    (input) => input ?? failToRead(workflowId),
    (cause: unknown) => failToRead(workflowId, { cause }),
  );
  return items
    .filter((_item, position) => chosen.has(first + position))
    .map((item) => (typeof item === 'object' && item !== null ? { ...template, ...item } : item))
    .filter(isFollowUpInput);
}

function failToRead(workflowId: string, options?: ErrorOptions): never {
  const message = `what ${workflowId} was to send cannot be read: Temporal no longer keeps it`;
  throw new UnexpectedOutcomeError(workflowId, message, options);
}

function isFollowUpInput(item: unknown): item is FollowUpInput {
  return parseInput(followUpInputSchema, item).ok;
}
