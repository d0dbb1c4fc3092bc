import { utf8Length } from '../common/index.js';
import {
  type BatchCounts,
  type BatchItem,
  batchItemKey,
  followUpWorkflowId,
  idSchema,
  type ItemOutcome,
  MAX_KEYWORD_LENGTH,
} from '../contract/index.js';

/** Longest error message in a batch, in bytes of UTF-8. The follow-up's own failure has the full text. */
const MAX_MESSAGE_BYTES = 200;

/**
 * An item before its follow-up starts. Invalid ids, and the workflow id with them, are empty.
 *
 * @param input of its follow-up, unchecked
 */
export function newItem(batchId: string, index: number, input: unknown): BatchItem {
  const given = (typeof input === 'object' ? (input ?? {}) : {}) as Record<string, unknown>;
  const idOf = (name: string): string => idSchema.safeParse(given[name]).data ?? '';
  const [projectId, jobId] = [idOf('projectId'), idOf('jobId')];
  const isValid = projectId !== '' && jobId !== '';
  const workflowId = isValid ? followUpWorkflowId({ projectId, jobId, key: batchItemKey(batchId, index) }) : '';
  return { index, projectId, jobId, workflowId };
}

export function hasOutcome({ status, error }: ItemOutcome): boolean {
  return status !== undefined || error !== undefined;
}

export function countsOf({ status, error }: ItemOutcome): BatchCounts {
  return {
    completed: 0,
    archived: 0,
    failed: 0,
    errors: error ? 1 : 0,
    unknown: error?.delivered === 'unknown' ? 1 : 0,
    ...(status && { [status]: 1 }),
    errorsByType: error ? { [error.type]: 1 } : {},
  };
}

export function addCounts(all: readonly BatchCounts[]): BatchCounts {
  const sum = countsOf({});
  for (const counts of all) {
    for (const name of ['completed', 'archived', 'failed', 'errors', 'unknown'] as const) sum[name] += counts[name];
    for (const [type, count] of Object.entries(counts.errorsByType) as [keyof BatchCounts['errorsByType'], number][]) {
      sum.errorsByType[type] = (sum.errorsByType[type] ?? 0) + count;
    }
  }
  return sum;
}

export function endedOf({ completed, archived, failed, errors }: BatchCounts): number {
  return completed + archived + failed + errors;
}

/** An outcome short enough for a batch to keep hundreds. */
export function trimOutcome({ status, prLink, error }: ItemOutcome): ItemOutcome {
  const isShort = prLink === null || (prLink !== undefined && utf8Length(prLink) <= MAX_KEYWORD_LENGTH);
  return {
    ...(status && { status }),
    ...(isShort && { prLink }),
    ...(error && { error: { ...error, message: trimMessage(error.message) } }),
  };
}

function trimMessage(message: string): string {
  const line = message.replace(/\s+/g, ' ').trim();
  if (utf8Length(line) <= MAX_MESSAGE_BYTES) return line;
  let end = MAX_MESSAGE_BYTES;
  while (utf8Length(line.slice(0, end)) > MAX_MESSAGE_BYTES - 3) end -= 1;
  return `${line.slice(0, end)}…`;
}
