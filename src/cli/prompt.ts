import type { Readable } from 'node:stream';
import { MAX_PROMPT_BYTES } from '../contract/index.js';
import { UsageError } from './report-error.js';
import { type ByteSource, openSource, unreadable } from './text-source.js';

/** Where the prompt was said to come from; `-` means stdin everywhere. */
export interface PromptSource {
  prompt?: string;
  promptFile?: string;
  /** A lone `-` behind the other arguments. */
  dash?: string;
}

/**
 * The prompt, as it is, without anything taken off; `undefined` where none was given.
 *
 * @throws UsageError where more than one was given, or it cannot be read
 */
export async function readPrompt(source: PromptSource, stdin: Readable = process.stdin): Promise<string | undefined> {
  const { prompt, promptFile, dash } = source;
  if (dash !== undefined && dash !== '-') {
    throw new UsageError(`unknown argument ${JSON.stringify(dash)}; give the prompt with --prompt, or - for stdin`);
  }
  if ([prompt, promptFile, dash].filter((given) => given !== undefined).length > 1) {
    throw new UsageError('give the prompt once: with --prompt, --prompt-file or -');
  }
  if (prompt === '-' || promptFile === '-' || dash === '-') return readText(await openSource('prompt', '-', stdin));
  if (promptFile === undefined) return prompt;
  return readText(await openSource('prompt', promptFile));
}

async function readText({ name, stream }: ByteSource): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of stream) {
      const bytes = Buffer.from(chunk as Uint8Array);
      chunks.push(bytes);
      length += bytes.length;
      if (length > MAX_PROMPT_BYTES) break;
    }
  } catch (error) {
    throw unreadable('prompt', name, error);
  }
  if (length > MAX_PROMPT_BYTES) throw new UsageError(`prompt: must be at most ${MAX_PROMPT_BYTES} bytes of UTF-8`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw new UsageError(`prompt: ${name} is not UTF-8 text`);
  }
}
