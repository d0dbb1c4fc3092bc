import { createHash } from 'node:crypto';
import { type Client, WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { z } from 'zod';
import { jsonBytes, tooManyParts } from '../batch/pack.js';
import { defined } from '../common/index.js';
import {
  addItemsUpdate,
  batchIdSchema,
  type BatchTotal,
  DEFAULT_MAX_OPEN,
  FailureType,
  type FollowUpBatchInput,
  type FollowUpDefaults,
  type FollowUpInput,
  MAX_PIECE_BYTES,
  parseInput,
  sealUpdate,
} from '../contract/index.js';
import { batchItemsOf, parseBatchInput, templateOf } from '../protocol/index.js';
import { sendUpdate } from './calls.js';
import { InvalidInputError, RefusedError } from './client-errors.js';
import { type About, type ExecutionStatus, retryWhileAway } from './temporal.js';

/** A batch to start: a list of follow-ups, or one prompt for many jobs of a project. */
export type StartBatchInput = {
  /** Id of the batch: the same id is the same batch, so starting it again never sends a second message. */
  id: string;
  /** Most follow-ups open at a time. @default 50 */
  maxOpen?: number | undefined;
  /** Fill in fields that items leave out. @default `{ lane: 'batch' }` */
  defaults?: FollowUpDefaults | undefined;
  /** Starts the first `canary` items, then holds the batch until `BatchHandle.continue`. */
  canary?: number | undefined;
  /** Number of items, or share such as `"5%"`, that may fail before the batch is held. */
  maxFailures?: number | string | undefined;
  /** Webhook targets to notify when the batch is held and when it ends. */
  notify?: string[] | undefined;
} & ({ items: FollowUpInput[] } | { projectId: string; prompt: string; jobIds: string[] });

/** A batch as its workflow receives it. */
export interface CheckedBatch {
  batchId: string;
  /** The workflow's input. */
  firstInput: FollowUpBatchInput;
  /** All items of the batch. */
  items: readonly FollowUpInput[];
  /** Whether `firstInput` has only the first items, and `addItems` adds the others. */
  isInPieces: boolean;
  /** Digest of everything that decides what is sent: batches with the same digest are the same. */
  digest: string;
}

/**
 * Checks a whole batch, and makes its first payload.
 *
 * @throws InvalidInputError naming every bad field
 */
export function checkBatch(input: StartBatchInput): CheckedBatch {
  const { id, ...batchInput } = input;
  const parsedId = parseInput(z.object({ id: batchIdSchema }), { id });
  const parsed = parseBatchInput(batchInput);
  if (!parsedId.ok || !parsed.ok) {
    throw new InvalidInputError([...(parsedId.ok ? [] : parsedId.issues), ...(parsed.ok ? [] : parsed.issues)]);
  }
  const items =
    'items' in input
      ? input.items
      : input.jobIds.map((jobId): FollowUpInput => ({ projectId: input.projectId, jobId, prompt: input.prompt }));
  const { maxOpen, defaults, canary, maxFailures, notify } = input;
  const isShort = 'jobIds' in input && jsonBytes(parsed.value) <= MAX_PIECE_BYTES;
  const pieces = isShort ? [] : piecesOf(items);
  const [first = []] = pieces;
  const isInPieces = pieces.length > 1;
  const firstInput: FollowUpBatchInput = isInPieces
    ? { ...defined({ maxOpen, defaults, canary, maxFailures, notify }), items: first, open: true }
    : parsed.value;
  // Its workflow divides each piece separately, and so does this check: an accepted batch is never refused half-way.
  const tooMany = tooManyParts(parsed.value, templateOf(firstInput), isInPieces ? pieces : undefined);
  if (tooMany) throw new InvalidInputError([tooMany]);
  return { batchId: id, items, digest: digestOf(parsed.value), firstInput, isInPieces };
}

/** Number of items from `offset` on, at least one, that fit into one payload of 256 KiB of JSON. */
export function countInPiece(items: readonly unknown[], offset: number): number {
  // The brackets of the list.
  let bytes = 2;
  let count = 0;
  for (let index = offset; index < items.length; index++) {
    bytes += jsonBytes(items[index]) + 1;
    if (bytes > MAX_PIECE_BYTES && count > 0) break;
    count++;
  }
  return count;
}

function piecesOf(items: readonly FollowUpInput[]): FollowUpInput[][] {
  const pieces = [];
  for (let from = 0; from < items.length;) pieces.push(items.slice(from, (from += countInPiece(items, from))));
  return pieces;
}

/** Digest of the items with defaults filled in, so that the short form equals its list. */
function digestOf(input: FollowUpBatchInput): string {
  const hash = createHash('sha256').update(
    `${JSON.stringify([input.maxOpen ?? DEFAULT_MAX_OPEN, input.canary, input.maxFailures, input.notify])}\n`,
  );
  for (const item of batchItemsOf(input)) hash.update(`${JSON.stringify(sorted(item))}\n`);
  return hash.digest('base64url');
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, field]) => field !== undefined);
  return entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, field]) => [name, sorted(field)]);
}

/** Options of `startBatch`. */
export interface StartBatchOptions {
  /** Aborts before the start, or between two pieces of a long list, with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Called while a long list is sent, with the number of items so far. */
  onHandedOver?: (count: number, total: number) => void;
  /**
   * Longest outage of Temporal or the workers while a long list is sent.
   *
   * @default 60_000
   */
  reconnectTimeoutMs?: number;
}

const DEFAULT_RECONNECT_TIMEOUT_MS = 60_000;

/** The started batch, whose items may be missing. */
interface OpenBatch {
  batchId: string;
  workflowId: string;
  alreadyStarted: boolean;
  describe(): Promise<{ status: ExecutionStatus }>;
  status(): Promise<{ total: number; sealed: boolean }>;
  result(): Promise<{ total: number }>;
}

/** Adds the missing items piece by piece, and seals the batch. */
export async function handOver(
  client: Client,
  batch: OpenBatch,
  { items }: CheckedBatch,
  { signal, onHandedOver, reconnectTimeoutMs = DEFAULT_RECONNECT_TIMEOUT_MS }: StartBatchOptions,
): Promise<void> {
  const retrying = <T>(call: () => Promise<T>) => retryWhileAway(call, reconnectTimeoutMs, signal);
  // The server recognises a repeated update by its id, and a continued run also by the offset.
  const send = (name: string, updateId: string, args: [unknown, ...unknown[]]) =>
    retrying(() => sendPiece(client, batch, name, { args, updateId }));
  const hasEnded = batch.alreadyStarted && (await batch.describe()).status !== 'running';
  const before = hasEnded ? { ...(await batch.result()), sealed: true } : await retrying(() => batch.status());
  if (before.sealed && before.total < items.length) {
    const why = `accepts no more items: it has the first ${before.total} of ${items.length}, and the others were never added`;
    throw new RefusedError('BatchEnded', batch.batchId, { why });
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

async function sendPiece(
  client: Client,
  { workflowId, batchId }: OpenBatch,
  name: string,
  update: { args: [unknown, ...unknown[]]; updateId: string },
): Promise<BatchTotal> {
  try {
    const handle = client.workflow.getHandle(workflowId);
    const about: About = { workflowId, missing: ['BatchEnded', batchId] };
    return await sendUpdate(client, about, () => handle.executeUpdate(name, update));
  } catch (error) {
    if (error instanceof WorkflowUpdateFailedError && error.cause instanceof ApplicationFailure) {
      const { type, message } = error.cause;
      if (type === FailureType.InvalidInput) throw new InvalidInputError([{ field: 'items', message }]);
    }
    throw error;
  }
}
