import { type FileHandle, open } from 'node:fs/promises';

/** One message request that arrived completely, with any outcome. Instants are epoch milliseconds. */
export interface LedgerEntry {
  receivedAtMs: number;
  /** When the rate limiter counted it; `null` if it was refused before, or over the limit. */
  countedAtMs: number | null;
  projectId: string;
  jobId: string;
  /** `null` if the body had none. */
  prompt: string | null;
  /** Whether the job took the message. */
  accepted: boolean;
  /** HTTP status of the answer; 0 if a fault leaves the message without one. */
  status: number;
}

/**
 * The messages that really arrived: the ground truth against which every belief of a client is checked. With a file, an
 * entry is on disk before {@link append} resolves; entries that come together share one sync.
 */
export class Ledger {
  /** In the order in which they were decided. */
  readonly entries: LedgerEntry[] = [];
  readonly #file: FileHandle | undefined;
  #unwritten: string[] = [];
  #lastSync: Promise<void> = Promise.resolve();
  #nextSync: Promise<void> | undefined;

  private constructor(file: FileHandle | undefined) {
    this.#file = file;
  }

  /** @param path entries are appended to it; a missing file is created */
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

  /** Waits for pending writes, and closes the file. */
  async close(): Promise<void> {
    try {
      await this.#lastSync;
    } finally {
      await this.#file?.close();
    }
  }
}

/** The most of these instants, in any order, in any rolling window. Two that are `windowMs` apart do not share one. */
export function maxInAnyWindow(instantsMs: readonly number[], windowMs: number): number {
  const sorted = [...instantsMs].sort((a, b) => a - b);
  let first = 0;
  let most = 0;
  for (const [index, instant] of sorted.entries()) {
    while ((sorted[first] ?? instant) <= instant - windowMs) first++;
    most = Math.max(most, index - first + 1);
  }
  return most;
}
