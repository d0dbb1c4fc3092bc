import { fillItem } from '../contract/batch-input.js';
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
import type { PartOrder } from './orders.js';
import { countAll, type EndedItem, type ItemOutcome, trimOutcome } from './outcome.js';

/**
 * An item of a part. It first waits and has `input`, then it is open and has `aliveAtMs`, then it has ended and has
 * `outcome`.
 */
interface PartItem {
  projectId: string;
  jobId: string;
  /** The item's fields beyond the part's template; dropped when it is started. */
  input?: unknown;
  /** When its follow-up was started, or was last known to run. */
  aliveAtMs?: number;
  outcome?: ItemOutcome;
}

/** Everything that a part carries through continue-as-new. Plain JSON. */
export interface PartState {
  batchId: string;
  part: number;
  /** Index of its first item in the batch. */
  first: number;
  /** Filled into every item. */
  template: Record<string, unknown>;
  items: PartItem[];
  order: PartOrder;
  /** No start is allowed before this time. Since then, `startedInWindow` starts were made. */
  windowFromMs: number;
  startedInWindow: number;
  reports: number;
  /** Positions of items whose ends are not reported yet. */
  unreported: number[];
  /**
   * Number of the latest report before the batch asked for everything again. That batch has forgotten what those
   * reports said.
   */
  forgottenReports?: number;
  cancelled: boolean;
}

export interface ItemStart {
  position: number;
  workflowId: string;
  input: FollowUpInput;
}

/** What a part reports to its batch: its counts, and what has ended since the last report. */
export interface PartReport {
  part: number;
  /** Always increases. A report with a number that is not higher says nothing new. */
  number: number;
  /** Number of the latest order that the part knows. */
  order: number;
  open: number;
  counts: BatchCounts;
  ended: EndedItem[];
}

/** The items of one part: which may start, and how they ended. Knows neither Temporal nor a clock. */
export class Part {
  constructor(readonly state: PartState) {}

  /** A new part. Items that are not valid input of a follow-up end at once, each with its own error. */
  static create(
    {
      ended = [],
      ...start
    }: Pick<PartState, 'batchId' | 'part' | 'first' | 'template' | 'order'> & {
      items: readonly unknown[];
      ended?: readonly EndedItem[];
    },
    firstStartAtMs: number,
  ): Part {
    const part = new Part({
      ...start,
      items: start.items.map((input) => ({ ...idsOf(fillItem(input, start.template)), input })),
      windowFromMs: firstStartAtMs,
      startedInWindow: 0,
      reports: 0,
      unreported: [],
      cancelled: false,
    });
    for (const { index, ...outcome } of ended) part.end(index - start.first, outcome);
    for (const [position, { input, outcome }] of part.state.items.entries()) {
      if (outcome) continue;
      const parsed = parseInput(followUpInputSchema, part.#filled(input));
      if (parsed.ok) continue;
      const message = describeIssues(parsed.issues);
      part.end(position, { error: { type: 'InvalidInput', message, delivered: 'no' } });
    }
    return part;
  }

  /**
   * Returns the follow-ups to start now; each counts as open from here on. Of the items whose job is at rest, the
   * project with the fewest open follow-ups goes first, so that no project's budget lies idle because another's items
   * come first. Within a project, the order of the list decides.
   */
  start(nowMs: number): ItemStart[] {
    const { state } = this;
    const { share, starts, everyMs } = state.order;
    if (state.cancelled || nowMs < state.windowFromMs) return [];
    if (nowMs >= state.windowFromMs + everyMs) {
      state.windowFromMs = nowMs;
      state.startedInWindow = 0;
    }
    const started: ItemStart[] = [];
    while (this.open < share && state.startedInWindow < starts) {
      const position = this.#next();
      if (position === undefined) break;
      const item = state.items[position];
      if (!item) break;
      state.startedInWindow += 1;
      // Checked when the part was created.
      const input = this.#filled(item.input) as FollowUpInput;
      started.push({ position, workflowId: this.workflowIdOf(position), input });
      delete item.input;
      item.aliveAtMs = nowMs;
    }
    return started;
  }

  /** When to call {@link start} again, if only the pace keeps an item from being started. */
  nextStartAtMs(): number | undefined {
    const { windowFromMs, startedInWindow, order, cancelled } = this.state;
    if (cancelled || this.open >= order.share || this.#next() === undefined) return undefined;
    return startedInWindow < order.starts ? windowFromMs : windowFromMs + order.everyMs;
  }

  /** Ends an item. Only the first outcome counts. */
  end(position: number, outcome: ItemOutcome): void {
    const item = this.state.items[position];
    if (!item || item.outcome) return;
    delete item.input;
    delete item.aliveAtMs;
    item.outcome = trimOutcome(outcome);
    this.state.unreported.push(position);
  }

  /** Starts no more items: those that wait end with `message`. */
  withdraw(message: string): void {
    this.state.cancelled = true;
    for (const [position, item] of this.state.items.entries()) {
      if (isWaiting(item)) this.end(position, { error: { type: 'Cancelled', message, delivered: 'no' } });
    }
  }

  /** Notes that the follow-up of an item is known to run. */
  noteAlive(position: number, nowMs: number): void {
    const item = this.state.items[position];
    if (item?.aliveAtMs !== undefined) item.aliveAtMs = nowMs;
  }

  openPositions(): number[] {
    return this.state.items.flatMap((item, position) => (item.aliveAtMs === undefined ? [] : [position]));
  }

  get open(): number {
    return this.openPositions().length;
  }

  get hasEnded(): boolean {
    return this.state.items.every((item) => item.outcome);
  }

  counts(): BatchCounts {
    return countAll(this.state.items.flatMap(({ outcome }) => (outcome ? [outcome] : [])));
  }

  /** Position of the item whose follow-up has this workflow id. */
  positionOf(workflowId: string): number | undefined {
    const index = Number(workflowId.slice(workflowId.lastIndexOf(':') + 1));
    const position = index - this.state.first;
    return this.state.items[position] && this.workflowIdOf(position) === workflowId ? position : undefined;
  }

  /** Workflow id of an item's follow-up; empty if a bad item has none. */
  workflowIdOf(position: number): string {
    const { batchId, first, items } = this.state;
    const { projectId = '', jobId = '' } = items[position] ?? {};
    if (!projectId || !jobId) return '';
    return followUpWorkflowId({ projectId, jobId, key: batchItemKey(batchId, first + position) });
  }

  /** The next report to the batch. Its contents count as reported once {@link noteReported} is called. */
  report(nowMs: number): PartReport {
    const { state } = this;
    // At least the time, so that the batch does not ignore a part that was reset.
    state.reports = Math.max(state.reports + 1, nowMs);
    return {
      part: state.part,
      number: state.reports,
      order: state.order.number,
      open: this.open,
      counts: this.counts(),
      ended: state.unreported.map((position) => ({
        index: state.first + position,
        ...state.items[position]?.outcome,
      })),
    };
  }

  /** Reports everything again: the batch has lost what it was told. */
  tellAll(): void {
    const { state } = this;
    state.unreported = state.items.flatMap(({ outcome }, position) => (outcome ? [position] : []));
    state.forgottenReports = state.reports;
  }

  noteReported({ number, ended }: PartReport): void {
    if (number <= (this.state.forgottenReports ?? -Infinity)) return;
    const told = new Set(ended.map(({ index }) => index - this.state.first));
    this.state.unreported = this.state.unreported.filter((position) => !told.has(position));
  }

  /** An item with its outcome, in the form of the contract. */
  itemAt(position: number): BatchItem {
    const { projectId = '', jobId = '', outcome } = this.state.items[position] ?? {};
    const workflowId = this.workflowIdOf(position);
    return { index: this.state.first + position, projectId, jobId, workflowId, ...outcome };
  }

  #filled(input: unknown): unknown {
    return fillItem(input, this.state.template);
  }

  /** Position of the item to start next. Items of one job keep their order, and a job has at most one open item. */
  #next(): number | undefined {
    const openJobs = new Set<string>();
    const openOf = new Map<string, number>();
    for (const { projectId, jobId, aliveAtMs } of this.state.items) {
      if (aliveAtMs === undefined) continue;
      openJobs.add(`${projectId}/${jobId}`);
      openOf.set(projectId, (openOf.get(projectId) ?? 0) + 1);
    }
    let best: number | undefined;
    let fewest = Infinity;
    for (const [position, item] of this.state.items.entries()) {
      const openInProject = openOf.get(item.projectId) ?? 0;
      if (!isWaiting(item) || openInProject >= fewest || openJobs.has(`${item.projectId}/${item.jobId}`)) continue;
      best = position;
      fewest = openInProject;
    }
    return best;
  }
}

function isWaiting({ aliveAtMs, outcome }: PartItem): boolean {
  return aliveAtMs === undefined && outcome === undefined;
}

/** The ids of an item; empty if they are not valid. */
export function idsOf(item: unknown): { projectId: string; jobId: string } {
  const { projectId, jobId } = (typeof item === 'object' ? (item ?? {}) : {}) as Record<string, unknown>;
  const idOr = (id: unknown): string => (typeof id === 'string' && idSchema.safeParse(id).success ? id : '');
  return { projectId: idOr(projectId), jobId: idOr(jobId) };
}
