import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { MAX_PROMPT_BYTES } from '../contract/index.js';
import type { CliIo } from './cli.js';
import { UsageError } from './errors.js';

/** Where bytes come from, and what it is called in messages. */
export interface ByteSource {
  name: string;
  stream: Readable;
}

/** Where the prompt was said to come from; `-` means stdin everywhere. */
export interface PromptSource {
  prompt?: string;
  promptFile?: string;
  /** A lone `-` behind the other arguments. */
  dash?: string;
}

/**
 * Opens a file, or stdin for `-`.
 *
 * @param what begins the error message
 * @throws UsageError where it cannot be opened
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
 * @returns `undefined` where it has more than `maxBytes`; then it is not read to its end
 * @throws UsageError where it cannot be read
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
 * The prompt, as it is, without anything taken off; `undefined` where none was given.
 *
 * @throws UsageError where more than one was given, or it cannot be read
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
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UsageError(`prompt: ${source.name} is not UTF-8 text`);
  }
}
