import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { type InputIssue, MAX_PROMPT_BYTES } from '../contract/index.js';
import { decodeUtf8, NotUtf8Error } from '../text-file.js';
import { type CliIo, UsageError } from './cli.js';

/** A source of bytes, with its name for messages. */
export interface ByteSource {
  name: string;
  stream: Readable;
}

/** The requested source of the prompt; `-` always means stdin. */
export interface PromptSource {
  prompt?: string;
  promptFile?: string;
  /** A lone `-` after the other arguments. */
  dash?: string;
}

/**
 * Opens a file, or stdin for `-`.
 *
 * @param what begins the error message
 * @throws UsageError if it cannot be opened
 */
export async function openSource(what: string, file: string, { stdin }: Pick<CliIo, 'stdin'>): Promise<ByteSource> {
  if (file === '-') return { name: 'stdin', stream: stdin };
  const handle = await open(file).catch((error: unknown) => {
    throw unreadable(what, file, error);
  });
  return { name: file, stream: handle.createReadStream() };
}

/** The error for a source that cannot be read. */
export function unreadable(what: string, name: string, error: unknown): UsageError {
  const reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
  return new UsageError(`${what}: cannot read ${name}: ${reason}`);
}

/**
 * Reads a source to its end.
 *
 * @param what begins the error message
 * @returns `undefined` if it has more than `maxBytes`; then it is not read to its end
 * @throws UsageError if it cannot be read
 */
export async function readBytes(
  what: string,
  { name, stream }: ByteSource,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of stream) {
      const bytes = Buffer.from(chunk as Uint8Array);
      chunks.push(bytes);
      length += bytes.length;
      if (length > maxBytes) return undefined;
    }
  } catch (error) {
    throw unreadable(what, name, error);
  }
  return Buffer.concat(chunks);
}

/**
 * The prompt, unchanged; `undefined` if none was given.
 *
 * @throws UsageError if more than one was given, or it cannot be read
 */
export async function readPrompt(
  io: Pick<CliIo, 'stdin'>,
  { prompt, promptFile, dash }: PromptSource,
): Promise<string | undefined> {
  if (dash !== undefined && dash !== '-') {
    throw new UsageError(`unknown argument ${JSON.stringify(dash)}; give the prompt with --prompt, or - for stdin`);
  }
  if ([prompt, promptFile, dash].filter((given) => given !== undefined).length > 1) {
    throw new UsageError('give the prompt once: with --prompt, --prompt-file or -');
  }
  const file = promptFile ?? (prompt === '-' ? '-' : dash);
  if (file === undefined) return prompt;
  const source = await openSource('prompt', file, io);
  const bytes = await readBytes('prompt', source, MAX_PROMPT_BYTES);
  if (!bytes) throw new UsageError(`prompt: must be at most ${MAX_PROMPT_BYTES} bytes of UTF-8`);
  try {
    return decodeUtf8(bytes);
  } catch (error) {
    if (error instanceof NotUtf8Error) throw new UsageError(`prompt: ${source.name} is ${error.message}`);
    throw error;
  }
}

/** A line of a text file, or why it is not valid text. */
export type Line = { number: number; text: string } | { number: number; problem: string };

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/**
 * Lines of UTF-8 text as they arrive, numbered from 1. Lines end with LF or CRLF; a byte order mark is removed. A
 * line that is too long or not UTF-8 becomes a problem, and reading continues. Never holds more
 * than one line and one chunk.
 *
 * @param maxLineBytes longest line, without its line ending
 */
export async function* readLines(chunks: AsyncIterable<unknown>, maxLineBytes: number): AsyncGenerator<Line> {
  let parts: Buffer[] = [];
  let length = 0;
  let number = 0;

  const add = (part: Buffer) => {
    length += part.length;
    // Keep two more bytes: the line ending, and one that proves the line too long.
    if (length <= maxLineBytes + 2) parts.push(part);
  };
  const end = (): Line => {
    number++;
    const isTooLong = length > maxLineBytes + 2;
    const line = trimEnd(Buffer.concat(parts));
    parts = [];
    length = 0;
    if (isTooLong || line.length > maxLineBytes) return { number, problem: `longer than ${maxLineBytes} bytes` };
    try {
      return { number, text: decodeUtf8(line) };
    } catch (error) {
      return { number, problem: error instanceof Error ? error.message : String(error) };
    }
  };

  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk as Uint8Array);
    let from = 0;
    for (let to = bytes.indexOf(LINE_FEED); to >= 0; to = bytes.indexOf(LINE_FEED, from)) {
      add(bytes.subarray(from, to));
      yield end();
      from = to + 1;
    }
    add(bytes.subarray(from));
  }
  if (length > 0) yield end();
}

function trimEnd(line: Buffer): Buffer {
  return line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line;
}

/** One broken rule of a line. */
type LineIssue = InputIssue & { line: number };

const MAX_SHOWN_LINES = 50;

/** Collects the problems of a file's lines: in full for the first 50 bad lines, then only their number. */
export class BadLines {
  readonly #issues: LineIssue[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Adds a bad line with all of its problems. */
  add(line: number, issues: readonly InputIssue[]): void {
    this.#count++;
    if (this.#count <= MAX_SHOWN_LINES) this.#issues.push(...issues.map((issue) => ({ line, ...issue })));
  }

  /** @throws BadLinesError if a line was bad */
  throwIfAny(name: string, lineCount: number): void {
    if (this.#count > 0) throw new BadLinesError(name, lineCount, this.#count, this.#issues);
  }
}

/** Thrown when lines of a file break rules. Nothing was sent. */
export class BadLinesError extends Error {
  override readonly name = 'BadLinesError';

  constructor(
    file: string,
    lineCount: number,
    readonly badLineCount: number,
    /** Of the first 50 bad lines. */
    readonly issues: readonly LineIssue[],
  ) {
    const bad = `${badLineCount} of ${lineCount} ${lineCount === 1 ? 'line' : 'lines'}`;
    super([`${file}: ${bad} cannot be taken, so nothing was sent`, ...describeLines(issues, badLineCount)].join('\n'));
  }
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
