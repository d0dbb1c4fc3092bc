import { fillItem } from '../contract/batch-input.js';
import type { PartInput, PartOrder, PartReport } from '../contract/batch-protocol.js';
import {
  type BatchCounts,
  type BatchItem,
  batchItemKey,
  describeIssues,
  type FollowUpInput,
  followUpInputSchema,
  followUpWorkflowId,
  idSchema,
  parseInput,
} from '../contract/index.js';
import type { ItemOutcome } from '../contract/batch-result.js';
import { addCounts, countsOf, trimOutcome } from './outcome.js';

interface PartItem {
  projectId: string;
  jobId: string;
  state: 'waiting' | 'open' | 'ended';
  outcome?: ItemOutcome;
}

/** An item to start. */
export interface ItemStart {
  position: number;
  workflowId: string;
  input: FollowUpInput;
}

/** The items of one part: which may start, and how they ended. Knows neither Temporal nor a clock. */
export class Part {
  readonly #input: PartInput;
  readonly #items: PartItem[];
  #order: PartOrder;
  #hasStopped = false;
  #reports = 0;
  /** Positions of items whose ends are not reported yet. */
  #unreported = new Set<number>();
  /** Number of the order that asked for everything again. A report on an earlier one went to a batch that forgot it. */
  #toldSince = 0;

  /** Items that are not valid input of a follow-up end at once, each with its own error. */
  constructor(input: PartInput) {
    this.#input = input;
    this.#order = input.order;
    this.#items = input.items.map((item) => ({ ...idsOf(fillItem(item, input.template)), state: 'waiting' }));
    for (const position of this.#items.keys()) {
      const parsed = parseInput(followUpInputSchema, this.inputOf(position));
      if (parsed.ok) continue;
      this.end(position, { error: { type: 'InvalidInput', message: describeIssues(parsed.issues), delivered: 'no' } });
    }
  }

  get order(): PartOrder {
    return this.#order;
  }

  /** Whether it starts nothing more, for good. */
  get hasStopped(): boolean {
    return this.#hasStopped;
  }

  get open(): number {
    return this.positions('open').length;
  }

  get hasEnded(): boolean {
    return this.#items.every(({ state }) => state === 'ended');
  }

  counts(): BatchCounts {
    return addCounts(this.#items.flatMap(({ outcome }) => (outcome ? [countsOf(outcome)] : [])));
  }

  positions(state: PartItem['state']): number[] {
    return this.#items.flatMap((item, position) => (item.state === state ? [position] : []));
  }

  obey(order: PartOrder): void {
    if (order.number <= this.#order.number) return;
    this.#order = order;
    if (!order.tellAll) return;
    this.#unreported = new Set(this.positions('ended'));
    this.#toldSince = order.number;
  }

  /**
   * Returns the follow-ups to start now; each counts as open from here on. Of the items whose job is at rest, the
   * project with the fewest open follow-ups goes first, so that no project's budget lies idle because another's items
   * come first. Within a project, the order of the list decides.
   */
  start(): ItemStart[] {
    const started: ItemStart[] = [];
    let { open } = this;
    while (!this.#hasStopped && open < this.#order.share) {
      const position = this.#next();
      if (position === undefined) break;
      this.noteOpen(position);
      open += 1;
      // Checked when the part was created.
      const input = this.inputOf(position) as FollowUpInput;
      started.push({ position, workflowId: this.workflowIdOf(position), input });
    }
    return started;
  }

  /** Notes that the follow-up of a waiting item runs. */
  noteOpen(position: number): void {
    const item = this.#items[position];
    if (item?.state === 'waiting') item.state = 'open';
  }

  /** Ends an item. Only the first outcome counts. */
  end(position: number, outcome: ItemOutcome): void {
    const item = this.#items[position];
    if (!item || item.state === 'ended') return;
    item.state = 'ended';
    item.outcome = trimOutcome(outcome);
    this.#unreported.add(position);
  }

  /** Starts no more items. */
  stop(): void {
    this.#hasStopped = true;
  }

  /** Ends the items that wait. */
  withdraw(message: string): void {
    for (const position of this.positions('waiting')) {
      this.end(position, { error: { type: 'Cancelled', message, delivered: 'no' } });
    }
  }

  /** The input of an item's follow-up, not checked. */
  inputOf(position: number): unknown {
    return fillItem(this.#input.items[position], this.#input.template);
  }

  /** Workflow id of an item's follow-up; empty if a bad item has none. */
  workflowIdOf(position: number): string {
    const { projectId = '', jobId = '' } = this.#items[position] ?? {};
    return itemWorkflowId(this.#input.batchId, this.#input.first + position, { projectId, jobId });
  }

  /** The next report to the batch. Its contents count as reported once {@link noteReported} is called. */
  report(nowMs: number): PartReport {
    const { part, first, hash } = this.#input;
    // At least the time, so that the batch does not ignore a part that was reset.
    this.#reports = Math.max(this.#reports + 1, nowMs);
    const ended = [...this.#unreported].map((position) => ({
      index: first + position,
      ...this.#items[position]?.outcome,
    }));
    return {
      part,
      number: this.#reports,
      hash,
      order: this.#order.number,
      open: this.open,
      counts: this.counts(),
      ended,
    };
  }

  noteReported({ order, ended }: PartReport): void {
    if (order < this.#toldSince) return;
    for (const { index } of ended) this.#unreported.delete(index - this.#input.first);
  }

  /** An item with its outcome, in the form of the contract. */
  itemAt(position: number): BatchItem {
    const { projectId = '', jobId = '', outcome } = this.#items[position] ?? {};
    const workflowId = this.workflowIdOf(position);
    return { index: this.#input.first + position, projectId, jobId, workflowId, ...outcome };
  }

  /** Position of the item to start next. Items of one job keep their order, and a job has at most one open item. */
  #next(): number | undefined {
    const { until = Infinity } = this.#order;
    const openJobs = new Set<string>();
    const openOf = new Map<string, number>();
    for (const { projectId, jobId, state } of this.#items) {
      if (state !== 'open') continue;
      openJobs.add(`${projectId}/${jobId}`);
      openOf.set(projectId, (openOf.get(projectId) ?? 0) + 1);
    }
    let best: number | undefined;
    let fewest = Infinity;
    for (const [position, { projectId, jobId, state }] of this.#items.entries()) {
      if (this.#input.first + position >= until) break;
      const openInProject = openOf.get(projectId) ?? 0;
      if (state !== 'waiting' || openInProject >= fewest || openJobs.has(`${projectId}/${jobId}`)) continue;
      best = position;
      fewest = openInProject;
    }
    return best;
  }
}

/** The ids of an item; empty if they are not valid. */
export function idsOf(item: unknown): { projectId: string; jobId: string } {
  const { projectId, jobId } = (typeof item === 'object' ? (item ?? {}) : {}) as Record<string, unknown>;
  const idOr = (id: unknown): string => (typeof id === 'string' && idSchema.safeParse(id).success ? id : '');
  return { projectId: idOr(projectId), jobId: idOr(jobId) };
}

/** Workflow id of the follow-up of the item at `index`; empty if a bad item has none. */
export function itemWorkflowId(batchId: string, index: number, ids: { projectId: string; jobId: string }): string {
  if (!ids.projectId || !ids.jobId) return '';
  return followUpWorkflowId({ ...ids, key: batchItemKey(batchId, index) });
}
