import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { MAX_PROMPT_BYTES } from '../contract/index.js';
import { UsageError } from './report-error.js';

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
  if (prompt === '-' || promptFile === '-' || dash === '-') return readText('stdin', stdin);
  if (promptFile === undefined) return prompt;
  const file = await open(promptFile).catch((error: unknown) => {
    throw new UsageError(`prompt: cannot read ${promptFile}: ${reason(error)}`);
  });
  return readText(promptFile, file.createReadStream());
}

async function readText(name: string, stream: Readable): Promise<string> {
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
    throw new UsageError(`prompt: cannot read ${name}: ${reason(error)}`);
  }
  if (length > MAX_PROMPT_BYTES) throw new UsageError(`prompt: must be at most ${MAX_PROMPT_BYTES} bytes of UTF-8`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw new UsageError(`prompt: ${name} is not UTF-8 text`);
  }
}

function reason(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error);
}
