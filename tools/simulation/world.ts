/** The start of every seed. */
export const START_MS = Date.UTC(2026, 0, 1);
/** Workflow id of the budget. */
export const BUDGET_ID = 'project-budget/p';

export const seconds = (ms: number): string => ((ms - START_MS) / 1_000).toFixed(1);

/** Lets all microtasks run. */
export const drain = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Numbers that follow from a seed (mulberry32). */
export class Chance {
  constructor(private seed: number) {}

  /** From 0 to 1. */
  next(): number {
    this.seed = (this.seed + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.seed ^ (this.seed >>> 15), this.seed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  happens = (probability: number): boolean => probability > 0 && this.next() < probability;
  between = (from: number, to: number): number => from + this.next() * (to - from);
  whole = (from: number, to: number): number => Math.floor(this.between(from, to + 1));
  pick = <T>(items: readonly T[]): T => items[Math.floor(this.next() * items.length)]!;
}

/** Virtual time, chance and the trace of one seed. All that happens is an event of one queue. */
export class World {
  nowMs = START_MS;
  /** A hash of all that was noted: the same seed has the same trace. */
  trace = 0x811c9dc5;
  readonly chance: Chance;
  /** The next event comes last. */
  readonly #queue: { atMs: number; what: (() => unknown) | undefined }[] = [];

  constructor(
    seed: number,
    readonly print?: (line: string) => void,
  ) {
    this.chance = new Chance(Math.imul(seed + 1, 0x9e3779b1) >>> 0);
  }

  /** Returns what takes the event back. */
  at(atMs: number, what: () => unknown): () => void {
    const event = { atMs: Math.max(atMs, this.nowMs), what: what as (() => unknown) | undefined };
    if (atMs === Infinity) return () => undefined;
    let [low, high] = [0, this.#queue.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#queue[middle]!.atMs > event.atMs) low = middle + 1;
      else high = middle;
    }
    this.#queue.splice(low, 0, event);
    return () => (event.what = undefined);
  }

  after = (ms: number, what: () => unknown): (() => void) => this.at(this.nowMs + ms, what);
  sleep = (ms: number): Promise<void> => new Promise((resolve) => this.after(ms, resolve));

  async run(untilMs: number, isOver: () => boolean): Promise<void> {
    for (let next = this.#queue.pop(); next && next.atMs <= untilMs && !isOver(); next = this.#queue.pop()) {
      if (!next.what) continue;
      this.nowMs = next.atMs;
      await next.what();
      await drain();
    }
  }

  note(...words: unknown[]): void {
    const line = `${((this.nowMs - START_MS) / 1_000).toFixed(3).padStart(10)} ${words.join(' ')}`;
    for (let i = 0; i < line.length; i++) this.trace = Math.imul(this.trace ^ line.charCodeAt(i), 0x01000193);
    this.print?.(line);
  }
}
