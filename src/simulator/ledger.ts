import { appendFileSync } from 'node:fs';

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

/** The messages that really arrived: the ground truth for what a client believes. */
export class Ledger {
  /** In the order of their decisions. */
  readonly entries: LedgerEntry[] = [];

  /** @throws if the file cannot be written */
  constructor(private readonly file: string | undefined) {
    this.#write('');
  }

  /** Adds an entry, also to the file, as a line of JSON. */
  append(entry: LedgerEntry): void {
    this.entries.push(entry);
    this.#write(`${JSON.stringify(entry)}\n`);
  }

  #write(text: string): void {
    if (this.file === undefined) return;
    try {
      appendFileSync(this.file, text);
    } catch (error) {
      throw new Error(`ledgerFile: cannot write to ${this.file}: ${String(error)}`, { cause: error });
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
