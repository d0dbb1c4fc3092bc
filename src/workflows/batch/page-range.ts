import { MAX_RESULT_ITEMS, type BatchItemsRange } from '../../contract/index.js';

const DEFAULT_LIMIT = 100;

/** A range with what is missing filled in, and what is no number, or out of bounds, brought within. */
export function pageRange(range: BatchItemsRange | null | undefined, first: number): { offset: number; limit: number } {
  const { offset = first, limit = DEFAULT_LIMIT } = range ?? {};
  return {
    offset: Number.isSafeInteger(offset) ? Math.max(first, offset) : first,
    limit: Number.isSafeInteger(limit) ? Math.min(MAX_RESULT_ITEMS, Math.max(1, limit)) : DEFAULT_LIMIT,
  };
}
