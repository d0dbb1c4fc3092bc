import type { Client } from '@temporalio/client';
import { z } from 'zod';
import {
  type BatchItem,
  type FollowUpInput,
  followUpBatchWorkflowId,
  followUpInputSchema,
  parseInput,
} from '../contract/index.js';
import { NothingToRetryError } from './batch-errors.js';
import type { BatchHandle } from './batch-handle.js';
import type { StartBatchInput } from './batch-input.js';
import { UnexpectedOutcomeError } from './errors.js';
import { readRunStart } from './started-input.js';
import { callTemporal } from './temporal-call.js';

/** Which items a retry sends again. */
export const retryChoices = ['unknown', 'failed'] as const;
export type RetryChoice = (typeof retryChoices)[number];

/** Options of `retry`. */
export interface RetryOptions {
  /**
   * `unknown`: it cannot be told whether the message was delivered, so it may be delivered a second time. `failed`: the
   * agent job failed, or the message was not delivered. A message that was delivered is not sent again otherwise.
   *
   * @default both
   */
  only?: RetryChoice | undefined;
}

/** What a part of a batch is started with, as far as it matters here. */
const partInputSchema = z.looseObject({
  first: z.int().min(0),
  template: z.record(z.string(), z.unknown()),
  items: z.array(z.unknown()),
});

/**
 * The batch that sends the items of another one again whose end calls for it. Its id follows from the other's and from
 * `only`: `nightly` is retried as `nightly-retry-1`, that as `nightly-retry-2`, and with `only` as
 * `nightly-retry-unknown-1`; so a retry that is repeated is the same batch, and sends nothing twice.
 *
 * @param batch one that has ended
 * @throws NothingToRetryError, UnexpectedOutcomeError where what was to be sent is not kept any more
 */
export async function planRetry(client: Client, batch: BatchHandle, { only }: RetryOptions): Promise<StartBatchInput> {
  const { batchId, workflowId } = batch;
  const chosen = new Set<number>();
  for await (const item of batch.list()) if (isRetried(item, only)) chosen.add(item.index);
  if (chosen.size === 0) throw new NothingToRetryError(workflowId, batchId);
  const { maxOpen, parts } = await batch.status();
  const items: FollowUpInput[] = [];
  for (let part = 0; part < parts; part++) items.push(...(await readItems(client, batchId, part, chosen)));
  if (items.length === 0) throw new NothingToRetryError(workflowId, batchId);
  return { id: retryId(batchId, only), items, maxOpen };
}

/** Whether a retry sends an item again. */
export function isRetried({ status, error }: BatchItem, only?: RetryChoice): boolean {
  const delivered = error?.delivered;
  if (delivered === 'unknown') return only !== 'failed';
  return (status === 'failed' || delivered === 'no') && only !== 'unknown';
}

/** Id of the batch that retries another one. */
export function retryId(batchId: string, only?: RetryChoice): string {
  const suffix = only === undefined ? '-retry-' : `-retry-${only}-`;
  const at = batchId.lastIndexOf(suffix);
  const count = at > 0 ? batchId.slice(at + suffix.length) : '';
  return /^[1-9]\d{0,5}$/.test(count) ? `${batchId.slice(0, at)}${suffix}${Number(count) + 1}` : `${batchId}${suffix}1`;
}

/** Those of a part's items that are chosen and can be sent; what is no input of a follow-up would fail again. */
async function readItems(
  client: Client,
  batchId: string,
  part: number,
  chosen: ReadonlySet<number>,
): Promise<FollowUpInput[]> {
  const workflowId = followUpBatchWorkflowId({ batchId, part });
  const { first, template, items } = await readPartInput(client, workflowId);
  return items
    .filter((_item, position) => chosen.has(first + position))
    .map((item) => (typeof item === 'object' && item !== null ? { ...template, ...item } : item))
    .filter(isFollowUpInput);
}

/** The input of a part's first run: later ones carry only what is left. */
async function readPartInput(client: Client, workflowId: string): Promise<z.infer<typeof partInputSchema>> {
  try {
    const { raw } = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
    const runId = raw.workflowExecutionInfo?.firstRunId;
    const [input] = await callTemporal(client, () => readRunStart(client, workflowId, runId ?? undefined));
    return partInputSchema.parse(input);
  } catch (error) {
    const message = `what ${workflowId} was to send cannot be read: Temporal does not keep it any more`;
    throw new UnexpectedOutcomeError(workflowId, message, { cause: error });
  }
}

function isFollowUpInput(item: unknown): item is FollowUpInput {
  return parseInput(followUpInputSchema, item).ok;
}
