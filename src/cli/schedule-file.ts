import { Readable } from 'node:stream';
import { readBatchFile } from './batch-file.js';
import { UsageError } from './report-error.js';
import { type ByteSource, openSource, unreadable } from './text-source.js';

/** A schedule's batch has at most 256 KiB of JSON; the file may have spaces and escapes besides. */
const MAX_FILE_BYTES = 4 * 1_048_576;

/**
 * Reads the batch of a schedule: a JSON document with `items` or `jobIds`, or a follow-up a line, which are checked here.
 *
 * @param file `-` is stdin
 * @returns what is to be a `FollowUpBatchInput`
 * @throws BadLinesError naming every bad line; UsageError where it cannot be read, or is too large by far
 */
export async function readScheduleFile(file: string, allowDuplicates: boolean): Promise<Record<string, unknown>> {
  const source = await openSource('schedule', file);
  const bytes = await readAll(source);
  const document = parseDocument(bytes);
  if (document) return document;
  const items = await readBatchFile({ name: source.name, stream: Readable.from([bytes]) }, { allowDuplicates });
  return { items: items.map(({ input }) => input) };
}

/** The whole file as a batch's input; `undefined` where it is something else, such as lines. */
function parseDocument(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8').replace(/^\ufeff/, ''));
    if (typeof value !== 'object' || value === null || !('items' in value || 'jobIds' in value)) return undefined;
    return { ...value };
  } catch {
    return undefined;
  }
}

async function readAll({ name, stream }: ByteSource): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of stream) {
      const bytes = Buffer.from(chunk as Uint8Array);
      chunks.push(bytes);
      length += bytes.length;
      if (length > MAX_FILE_BYTES) break;
    }
  } catch (error) {
    throw unreadable('schedule', name, error);
  }
  if (length > MAX_FILE_BYTES) {
    throw new UsageError(`schedule: ${name} must be at most ${MAX_FILE_BYTES} bytes, of which 262144 may be its batch`);
  }
  return Buffer.concat(chunks);
}
