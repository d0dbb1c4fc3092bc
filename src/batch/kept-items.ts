import { type BatchItem, batchItemKey, followUpWorkflowId } from '../contract/index.js';
import type { ItemOutcome } from './outcome.js';
import { jsonBytes } from './pack.js';

/** An item as it is kept: index of its project, job id, and how it ended. */
type KeptItem = [project: number, jobId: string, outcome?: ItemOutcome];

export interface CarriedItems {
  projects: string[];
  items: KeptItem[];
}

/**
 * The first items of a batch with their outcomes, as many as fit into `mostBytes`: about 3,000 to 5,000 by default. The
 * parts know the others.
 */
export class KeptItems {
  readonly #batchId: string;
  readonly #mostBytes: number;
  readonly #projects: string[];
  readonly #items: KeptItem[];
  #bytes: number;

  constructor(batchId: string, mostBytes: number, { projects, items }: CarriedItems) {
    this.#batchId = batchId;
    this.#mostBytes = mostBytes;
    this.#projects = projects;
    this.#items = items;
    this.#bytes = [...projects, ...items].reduce((sum, value) => sum + jsonBytes(value) + 1, 0);
  }

  /** Number of items kept. They are the first ones of the batch. */
  get length(): number {
    return this.#items.length;
  }

  carry(): CarriedItems {
    return { projects: this.#projects, items: this.#items };
  }

  /** Keeps one more item if it is the next one and there is room. */
  add(index: number, { projectId, jobId }: { projectId: string; jobId: string }): void {
    if (index !== this.#items.length || this.#bytes >= this.#mostBytes) return;
    let project = this.#projects.lastIndexOf(projectId);
    if (project < 0) {
      project = this.#projects.push(projectId) - 1;
      this.#bytes += jsonBytes(projectId) + 1;
    }
    const item: KeptItem = [project, jobId];
    this.#items.push(item);
    this.#bytes += jsonBytes(item) + 1;
    this.#shrink();
  }

  end(index: number, outcome: ItemOutcome): void {
    const item = this.#items[index];
    if (!item || item[2]) return;
    this.#bytes += jsonBytes(outcome) + 1;
    item[2] = outcome;
    this.#shrink();
  }

  at(index: number): BatchItem | undefined {
    const item = this.#items[index];
    if (!item) return undefined;
    const [project, jobId, outcome] = item;
    const projectId = this.#projects[project] ?? '';
    const key = batchItemKey(this.#batchId, index);
    const workflowId = projectId && jobId ? followUpWorkflowId({ projectId, jobId, key }) : '';
    return { index, projectId, jobId, workflowId, ...outcome };
  }

  /** Items from `offset` on, at most `limit` and at most `mostBytes` of them. */
  slice(offset: number, limit: number, mostBytes: number): BatchItem[] {
    const items: BatchItem[] = [];
    let bytes = 0;
    for (let index = offset; items.length < limit; index++) {
      const item = this.at(index);
      if (!item) break;
      bytes += jsonBytes(item) + 1;
      if (bytes > mostBytes && items.length > 0) break;
      items.push(item);
    }
    return items;
  }

  #shrink(): void {
    while (this.#bytes > this.#mostBytes) {
      const item = this.#items.pop();
      if (!item) return;
      this.#bytes -= jsonBytes(item) + 1;
    }
  }
}
