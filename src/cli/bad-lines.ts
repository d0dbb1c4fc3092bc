import type { InputIssue } from '../contract/index.js';

/** One broken rule of a line. */
export interface LineIssue extends InputIssue {
  /** From 1, as editors count. */
  line: number;
}

const MAX_SHOWN_LINES = 50;

/** Collects what is wrong with a file's lines: in full for the first 50 bad lines, after that only their number. */
export class BadLines {
  readonly #issues: LineIssue[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Takes a bad line; lines are told once, with all that is wrong with them. */
  add(line: number, issues: readonly InputIssue[]): void {
    this.#count++;
    if (this.#count <= MAX_SHOWN_LINES) this.#issues.push(...issues.map((issue) => ({ line, ...issue })));
  }

  /** @throws BadLinesError where a line was bad */
  throwIfAny(name: string, lineCount: number): void {
    if (this.#count > 0) throw new BadLinesError(name, lineCount, this.#count, this.#issues);
  }
}

/** Thrown when lines of a file break rules, before anything is sent anywhere. */
export class BadLinesError extends Error {
  override readonly name = 'BadLinesError';

  constructor(
    file: string,
    lineCount: number,
    readonly badLineCount: number,
    /** Of the first 50 bad lines. */
    readonly issues: readonly LineIssue[],
  ) {
    super([heading(file, lineCount, badLineCount), ...describeLines(issues, badLineCount)].join('\n'));
  }
}

function heading(file: string, lineCount: number, badLineCount: number): string {
  const lines = `${badLineCount} of ${lineCount} ${lineCount === 1 ? 'line' : 'lines'}`;
  return `${file}: ${lines} cannot be taken, so nothing was sent`;
}

function describeLines(issues: readonly LineIssue[], badLineCount: number): string[] {
  const lines = new Map<number, string[]>();
  for (const { line, field, message } of issues) {
    lines.set(line, [...(lines.get(line) ?? []), field ? `${field}: ${message}` : message]);
  }
  const shown = [...lines].map(([line, messages]) => `  line ${line}: ${messages.join('; ')}`);
  const more = badLineCount - lines.size;
  return more > 0 ? [...shown, `  and ${more} more bad ${more === 1 ? 'line' : 'lines'}`] : shown;
}
