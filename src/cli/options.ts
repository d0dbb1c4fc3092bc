import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { defined } from '../contract/defined.js';
import { MAX_PROMPT_BYTES } from '../contract/index.js';
import { decodeUtf8, NotUtf8Error } from '../text-file.js';
import { type CliIo, UsageError } from './cli.js';

/** The options for the limits of a batch. */
export interface LimitOptions {
  maxOpen?: string;
  canary?: string;
  maxFailures?: string;
  allowDuplicates?: boolean;
}

/** The fields of a batch's input from the options, unchecked. */
export function toLimits({ maxOpen, canary, maxFailures }: LimitOptions): Record<string, unknown> {
  return defined({ maxOpen: number(maxOpen), canary: number(canary), maxFailures: number(maxFailures) });
}

/** The options for the settings of a follow-up. */
export interface SettingOptions {
  lane?: string;
  onUnknownDelivery?: string;
  whenActive?: string;
  pollInitialInterval?: string;
  pollMaxInterval?: string;
  pollBackoffCoefficient?: string;
  settleTime?: string;
  prLinkGrace?: string;
  jobTimeout?: string;
  budgetWaitTimeout?: string;
}

/** The settings from the options, unchecked. */
export function toSettings(options: SettingOptions): Record<string, unknown> {
  const { pollInitialInterval, pollMaxInterval, pollBackoffCoefficient } = options;
  const poll = defined({
    initialInterval: duration(pollInitialInterval),
    maxInterval: duration(pollMaxInterval),
    backoffCoefficient: number(pollBackoffCoefficient),
  });
  return defined({
    lane: options.lane,
    onUnknownDelivery: options.onUnknownDelivery,
    whenActive: options.whenActive,
    poll: Object.keys(poll).length > 0 ? poll : undefined,
    settleTime: duration(options.settleTime),
    prLinkGrace: duration(options.prLinkGrace),
    jobTimeout: duration(options.jobTimeout),
    budgetWaitTimeout: duration(options.budgetWaitTimeout),
  });
}

/** Turns digits into milliseconds. Returns any other text unchanged, to be checked with the other fields. */
export function duration(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : text;
}

/** Turns digits, with or without a fraction, into a number. Returns any other text unchanged. */
export function number(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

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
