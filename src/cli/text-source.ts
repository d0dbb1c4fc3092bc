import { open } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { UsageError } from './report-error.js';

/** Where bytes come from, and what it is called in messages. */
export interface ByteSource {
  name: string;
  stream: Readable;
}

/**
 * Opens a file, or stdin for `-`.
 *
 * @param what begins the error message
 * @throws UsageError where it cannot be opened
 */
export async function openSource(what: string, file: string, stdin: Readable = process.stdin): Promise<ByteSource> {
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
