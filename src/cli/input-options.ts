import { createReadStream } from 'node:fs';
import { InvalidInputError } from '../client/index.js';
import { codeOf, defined } from '../common/index.js';
import { followUpDefaultsSchema, MAX_PROMPT_BYTES } from '../contract/index.js';
import { decodeUtf8, NotUtf8Error } from '../node/text-file.js';
import { type CliIo, UsageError } from './cli.js';

/** Picks options by name, if they are set. */
export function pick(options: object, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([name]) => names.includes(name)));
}

export function toLimits(options: object): Record<string, unknown> {
  return pick(options, ['maxOpen', 'canary', 'maxFailures', 'notify']);
}

export function toInputFields(options: object): Record<string, unknown> {
  const { pollInitialInterval, pollMaxInterval, pollBackoffCoefficient } = options as Record<string, unknown>;
  const poll = defined({
    initialInterval: pollInitialInterval,
    maxInterval: pollMaxInterval,
    backoffCoefficient: pollBackoffCoefficient,
  });
  const settings = pick(options, Object.keys(followUpDefaultsSchema.shape));
  return { ...settings, ...(Object.keys(poll).length > 0 && { poll }) };
}

/** A source of bytes, with its name for messages. */
export interface ByteSource {
  name: string;
  chunks: AsyncIterable<unknown> | Iterable<unknown>;
}

/**
 * A file, or stdin for `-`, which opens when it is read. Throws a UsageError if it cannot be read.
 *
 * @param what start of the error message
 */
export function openSource(what: string, file: string, io: Pick<CliIo, 'stdin'>): ByteSource {
  const name = file === '-' ? 'stdin' : file;
  async function* read() {
    try {
      yield* file === '-' ? io.stdin : createReadStream(file);
    } catch (error) {
      const reason = codeOf(error) ?? String(error);
      throw new UsageError(`${what}: cannot read ${name}: ${reason}`);
    }
  }
  return { name, chunks: read() };
}

/**
 * The whole text of a file, or of stdin for `-`.
 *
 * @param what start of the error message
 * @throws InvalidInputError if it is longer than `maxBytes`; UsageError if it cannot be read, or is not UTF-8
 */
export async function readText(
  what: string,
  file: string,
  io: Pick<CliIo, 'stdin'>,
  maxBytes: number,
): Promise<string> {
  const { name, chunks } = openSource(what, file, io);
  const read: Buffer[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk as Uint8Array);
    read.push(bytes);
    length += bytes.length;
    if (length > maxBytes) {
      throw new InvalidInputError([
        { field: what, message: `must be at most ${maxBytes} bytes of UTF-8: ${name} is longer` },
      ]);
    }
  }
  try {
    return decodeUtf8(Buffer.concat(read));
  } catch (error) {
    if (error instanceof NotUtf8Error) throw new UsageError(`${what}: ${name} is ${error.message}`);
    throw error;
  }
}

/** The requested source of the prompt; `-` always means stdin. */
export interface PromptSource {
  prompt?: string;
  promptFile?: string;
  /** A single `-` after the other arguments. */
  dash?: string | undefined;
}

/**
 * The unchanged prompt, if there is one.
 *
 * @throws UsageError if there is more than one, or it cannot be read
 */
export async function readPrompt(
  io: Pick<CliIo, 'stdin'>,
  { prompt, promptFile, dash }: PromptSource,
): Promise<string | undefined> {
  if (dash !== undefined && dash !== '-') {
    throw new UsageError(`unknown argument ${JSON.stringify(dash)}; give the prompt with --prompt, or - for stdin`);
  }
  if ([prompt, promptFile, dash].filter((given) => given !== undefined).length > 1) {
    throw new UsageError('set the prompt once: with --prompt, --prompt-file or -');
  }
  const file = promptFile ?? (prompt === '-' ? '-' : dash);
  return file === undefined ? prompt : readText('prompt', file, io, MAX_PROMPT_BYTES);
}
