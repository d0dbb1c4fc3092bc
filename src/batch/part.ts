import { defined } from '../common/index.js';
import {
  type BatchCounts,
  type BatchItem,
  describeIssues,
  type FollowUpInput,
  followUpInputSchema,
  type ItemOutcome,
  parseInput,
} from '../contract/index.js';
import { fillItem, type PartInput, type PartOrder, type PartReport } from '../protocol/index.js';
import { addCounts, countsOf, hasOutcome, newItem, trimOutcome } from './outcome.js';

export interface ItemStart {
  position: number;
  workflowId: string;
  input: FollowUpInput;
}

/** The items of a part: which may start, and how they ended. Knows neither Temporal nor a clock. */
export class Part {
  /** All items, with the outcomes of ended ones. An item's position is its index in this list. */
  readonly items: readonly BatchItem[];
  readonly #open = new Set<number>();
  #order: PartOrder;
  #reports = 0;
  /** Positions of items whose end is not reported yet. */
  #unreported = new Set<number>();

  /** Invalid items end at once, each with its own error. */
  constructor(private readonly input: PartInput) {
    this.#order = input.order;
    this.items = input.items.map((_, position) =>
      newItem(input.batchId, input.first + position, this.inputOf(position)),
    );
    for (const position of this.items.keys()) {
      const parsed = parseInput(followUpInputSchema, this.inputOf(position));
      if (parsed.ok) continue;
      this.end(position, { error: { type: 'InvalidInput', message: describeIssues(parsed.issues), delivered: 'no' } });
    }
  }

  get order(): PartOrder {
    return this.#order;
  }

  get hasEnded(): boolean {
    return this.items.every(hasOutcome);
  }

  counts(): BatchCounts {
    return addCounts(this.items.map(countsOf));
  }

  positions(state: 'waiting' | 'open'): number[] {
    return this.items.flatMap((item, position) =>
      !hasOutcome(item) && this.#open.has(position) === (state === 'open') ? [position] : [],
    );
  }

  receive(order: PartOrder): void {
    if (order.number <= this.#order.number) return;
    const isAnew = order.since > this.#order.since;
    this.#order = order;
    if (!isAnew) return;
    this.#unreported = new Set(this.items.flatMap((item, position) => (hasOutcome(item) ? [position] : [])));
  }

  /**
   * Returns the follow-ups to start now; each counts as open from now on. Of the items whose job is at rest, the
   * project with the fewest open follow-ups comes first, so that no project's budget is idle because another's items
   * come earlier. Within a project, the order of the list applies.
   */
  start(): ItemStart[] {
    const started: ItemStart[] = [];
    while (this.#open.size < this.#order.share) {
      const position = this.#next();
      if (position === undefined) break;
      this.#open.add(position);
      const input = this.inputOf(position) as FollowUpInput;
      started.push({ position, workflowId: this.workflowIdOf(position), input });
    }
    return started;
  }

  /** Records that an item's follow-up runs. Returns whether the item was waiting. */
  noteOpen(position: number): boolean {
    const item = this.items[position];
    if (!item || hasOutcome(item) || this.#open.has(position)) return false;
    this.#open.add(position);
    return true;
  }

  /** Only the first outcome of an item counts. */
  end(position: number, outcome: ItemOutcome): void {
    const item = this.items[position];
    if (!item || hasOutcome(item)) return;
    Object.assign(item, trimOutcome(outcome));
    this.#open.delete(position);
    this.#unreported.add(position);
  }

  /** The unchecked input of an item's follow-up. */
  inputOf(position: number): unknown {
    return fillItem(this.input.items[position], this.input.template);
  }

  workflowIdOf(position: number): string {
    return this.items[position]?.workflowId ?? '';
  }

  /** The next report to the batch. {@link noteReported} marks its contents as reported. */
  report(nowMs: number): PartReport {
    const { part, first, hash } = this.input;
    // At least the time, so that the batch accepts reports from a part that was reset.
    this.#reports = Math.max(this.#reports + 1, nowMs);
    const ended = [...this.#unreported].map((position) => {
      const { status, prLink, error } = this.items[position] ?? {};
      return { index: first + position, ...defined({ status, prLink, error }) };
    });
    const [open, counts] = [this.#open.size, this.counts()];
    return { part, number: this.#reports, hash, order: this.#order.number, open, counts, ended };
  }

  noteReported({ order, ended }: PartReport): void {
    if (order < this.#order.since) return;
    for (const { index } of ended) this.#unreported.delete(index - this.input.first);
  }

  /** Position of the next item to start. Items of a job keep their order, with at most one open. */
  #next(): number | undefined {
    const { until = Infinity } = this.#order;
    const openJobs = new Set<string>();
    const openOf = new Map<string, number>();
    for (const position of this.#open) {
      const { projectId = '', jobId = '' } = this.items[position] ?? {};
      openJobs.add(`${projectId}/${jobId}`);
      openOf.set(projectId, (openOf.get(projectId) ?? 0) + 1);
    }
    let best: number | undefined;
    let fewest = Infinity;
    for (const position of this.positions('waiting')) {
      const { index = Infinity, projectId = '', jobId = '' } = this.items[position] ?? {};
      if (index >= until) break;
      const openInProject = openOf.get(projectId) ?? 0;
      if (openInProject >= fewest || openJobs.has(`${projectId}/${jobId}`)) continue;
      best = position;
      fewest = openInProject;
    }
    return best;
  }
}
