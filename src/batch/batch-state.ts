import type { BatchCounts, BatchHold, BatchItem } from '../contract/index.js';
import type { Conversation } from './conversation.js';

export interface BatchStart {
  batchId: string;
  maxOpen: number;
  canary?: number;
  maxFailures?: number | string;
  notify?: string[];
  template: Record<string, unknown>;
  sealed: boolean;
  startedAtMs: number;
}

/** What a batch knows of one of its parts. */
export interface PartRecord {
  first: number;
  size: number;
  hash: string;
  conversation: Conversation;
  open: number;
  counts: BatchCounts;
  restarts: number;
}

/** State that continue-as-new carries: plain JSON. */
export interface BatchState extends BatchStart {
  cancelled: boolean;
  hold?: BatchHold;
  forgivenFailures: number;
  firstEndedAtMs?: number;
  lastEndedAtMs?: number;
  total: number;
  parts: PartRecord[];
  /** The first {@link MAX_RESULT_ITEMS} items. The parts hold the others. */
  kept: BatchItem[];
  updates: [id: string, total: number][];
}
