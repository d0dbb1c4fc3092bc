import { type FileHandle, open } from 'node:fs/promises';

/** A message request that arrived completely, with any outcome. Times are epoch milliseconds. */
export interface LedgerEntry {
  receivedAtMs: number;
  /** When the rate limiter counted it; `null` if it was refused earlier, or over the limit. */
  countedAtMs: number | null;
  projectId: string;
  jobId: string;
  /** `null` if the body had none. */
  prompt: string | null;
  accepted: boolean;
  /** HTTP status of the response; 0 if a fault leaves the message without one. */
  status: number;
}

/**
 * The messages that really arrived: the ground truth for what a client believes. With a file, an entry is on disk
 * before {@link append} resolves; simultaneous entries share one sync.
 */
export class Ledger {
  /** In the order of their decisions. */
  readonly entries: LedgerEntry[] = [];
  readonly #file: FileHandle | undefined;
  #unwritten: string[] = [];
  #lastSync: Promise<void> = Promise.resolve();
  #nextSync: Promise<void> | undefined;

  private constructor(file: FileHandle | undefined) {
    this.#file = file;
  }

  static async open(path: string | undefined): Promise<Ledger> {
    if (path === undefined) return new Ledger(undefined);
    try {
      return new Ledger(await open(path, 'a'));
    } catch (error) {
      throw new Error(`ledgerFile: cannot write to ${path}: ${String(error)}`, { cause: error });
    }
  }

  /** Adds an entry at once, and resolves when it is on disk. */
  async append(entry: LedgerEntry): Promise<void> {
    this.entries.push(entry);
    const file = this.#file;
    if (!file) return;
    this.#unwritten.push(`${JSON.stringify(entry)}\n`);
    this.#nextSync ??= this.#lastSync.then(async () => {
      const lines = this.#unwritten.join('');
      this.#unwritten = [];
      this.#nextSync = undefined;
      await file.appendFile(lines);
      await file.datasync();
    });
    this.#lastSync = this.#nextSync;
    await this.#nextSync;
  }

  async close(): Promise<void> {
    try {
      await this.#lastSync;
    } finally {
      await this.#file?.close();
    }
  }
}

/** The largest number of these times in any rolling window, in any order. Two times `windowMs` apart do not share a window. */
export function maxInAnyWindow(instantsMs: readonly number[], windowMs: number): number {
  const sorted = [...instantsMs].sort((a, b) => a - b);
  let first = 0;
  let max = 0;
  for (const [index, instant] of sorted.entries()) {
    while ((sorted[first] ?? instant) <= instant - windowMs) first++;
    max = Math.max(max, index - first + 1);
  }
  return max;
}
