import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { describeIssues, type InputIssue, MAX_PROMPT_BYTES } from '../contract/index.js';
import { decodeUtf8, NotUtf8Error } from '../text-file.js';
import { type CliIo, UsageError } from './cli.js';

/** A source of bytes, with its name for messages. */
export interface ByteSource {
  name: string;
  chunks: AsyncIterable<unknown> | Iterable<unknown>;
}

/** The requested source of the prompt; `-` always means stdin. */
export interface PromptSource {
  prompt?: string;
  promptFile?: string;
  /** A lone `-` after the other arguments. */
  dash?: string;
}

/**
 * A file, or stdin for `-`. It is opened when it is read, and a UsageError says if it cannot be read.
 *
 * @param what begins the error message
 */
export function openSource(what: string, file: string, io: Pick<CliIo, 'stdin'>): ByteSource {
  const name = file === '-' ? 'stdin' : file;
  return {
    name,
    chunks: reading(`${what}: cannot read ${name}`, () => (file === '-' ? io.stdin : createReadStream(file))),
  };
}

async function* reading(failure: string, open: () => Readable): AsyncGenerator<unknown, void, undefined> {
  try {
    yield* open();
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    throw new UsageError(`${failure}: ${reason}`);
  }
}

/**
 * Reads a source to its end.
 *
 * @returns `undefined` if it has more than `maxBytes`; then it is not read to its end
 */
export async function readBytes({ chunks }: ByteSource, maxBytes: number): Promise<Buffer | undefined> {
  const read: Buffer[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk as Uint8Array);
    read.push(bytes);
    length += bytes.length;
    if (length > maxBytes) return undefined;
  }
  return Buffer.concat(read);
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
  const source = openSource('prompt', file, io);
  const bytes = await readBytes(source, MAX_PROMPT_BYTES);
  if (!bytes) throw new UsageError(`prompt: must be at most ${MAX_PROMPT_BYTES} bytes of UTF-8`);
  try {
    return decodeUtf8(bytes);
  } catch (error) {
    if (error instanceof NotUtf8Error) throw new UsageError(`prompt: ${source.name} is ${error.message}`);
    throw error;
  }
}

const LINE_FEED = 0x0a;

/**
 * The lines of a text as they arrive, without their line feeds; `undefined` for a line of more than `maxBytes`. Never
 * holds more than one line and one chunk.
 */
export async function* readLines(
  chunks: ByteSource['chunks'],
  maxBytes: number,
): AsyncGenerator<Buffer | undefined, void, undefined> {
  let parts: Buffer[] = [];
  let length = 0;
  const add = (part: Buffer) => {
    length += part.length;
    if (length <= maxBytes) parts.push(part);
  };
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk as Uint8Array);
    let from = 0;
    for (let to = bytes.indexOf(LINE_FEED); to >= 0; to = bytes.indexOf(LINE_FEED, from)) {
      add(bytes.subarray(from, to));
      yield length > maxBytes ? undefined : Buffer.concat(parts);
      [parts, length, from] = [[], 0, to + 1];
    }
    add(bytes.subarray(from));
  }
  if (length > 0) yield length > maxBytes ? undefined : Buffer.concat(parts);
}

/** A line that cannot be taken, from 1, and every rule that it breaks. */
export interface BadLine {
  line: number;
  issues: readonly InputIssue[];
}

/** Thrown when lines of a file break rules. Nothing was sent. */
export class BadLinesError extends Error {
  override readonly name = 'BadLinesError';
  readonly issues: readonly (InputIssue & { line: number })[];

  /** @param shown the first of the bad lines */
  constructor(
    file: string,
    lineCount: number,
    readonly badLineCount: number,
    shown: readonly BadLine[],
  ) {
    const bad = `${badLineCount} of ${lineCount} ${lineCount === 1 ? 'line' : 'lines'}`;
    const more = badLineCount - shown.length;
    super(
      [
        `${file}: ${bad} cannot be taken, so nothing was sent`,
        ...shown.map(({ line, issues }) => `  line ${line}: ${describeIssues(issues)}`),
        ...(more > 0 ? [`  and ${more} more bad ${more === 1 ? 'line' : 'lines'}`] : []),
      ].join('\n'),
    );
    this.issues = shown.flatMap(({ line, issues }) => issues.map((issue) => ({ line, ...issue })));
  }
}
