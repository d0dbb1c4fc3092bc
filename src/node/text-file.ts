import { readFile, stat } from 'node:fs/promises';
import { codeOf } from '../common/index.js';

/** Thrown for bytes that are not UTF-8. */
export class NotUtf8Error extends Error {
  override readonly name = 'NotUtf8Error';
}

/**
 * Decodes a file, or a line of it, and drops a byte order mark, which some editors write. All text files of users are
 * decoded here.
 *
 * @throws NotUtf8Error that names the encoding if it is recognisable
 */
export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(withoutBom(bytes));
  } catch (error) {
    throw error instanceof NotUtf8Error ? error : new NotUtf8Error('not UTF-8');
  }
}

/**
 * The bytes of a file with significant ASCII lines, such as PEM, without a byte order mark.
 *
 * @throws NotUtf8Error for UTF-16
 */
export function withoutBom(bytes: Uint8Array): Uint8Array {
  const start = Buffer.from(bytes.subarray(0, 3)).toString('hex');
  if (/^(?:fffe|feff)/.test(start)) throw new NotUtf8Error('UTF-16; the file must be UTF-8');
  return start === 'efbbbf' ? bytes.subarray(3) : bytes;
}

/**
 * A file that changed less than this before a read is read again at the next use: its time stamp, with a resolution of
 * up to 2 s, would not show a second change.
 */
const TIME_STAMP_RESOLUTION_MS = 2_000;

/**
 * Watches a file by its times of change, size and inode at each use, which also detects replacement by a rename or a
 * symbolic link.
 *
 * @param parse throws an `Error` whose message describes the problem, without secrets
 * @returns a function that checks the file, and returns its latest valid content, if any, and its current problem, if
 *   any. It never throws
 */
export function watchFile<T>(
  path: string,
  parse: (text: string) => T,
  { onProblem }: { onProblem?: ((file: string, problem: string | undefined) => void) | undefined },
) {
  let content: T | undefined;
  let signature: string | undefined;
  let problem: string | undefined;
  let last: Promise<unknown> = Promise.resolve();

  async function refresh() {
    let found: string | undefined;
    try {
      const { mtimeMs, ctimeMs, size, ino } = await stat(path);
      const current = `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
      if (current === signature) return { content, problem: undefined };
      // Stored before reading, so that a change during the read shows at the next use.
      signature = Date.now() - Math.max(mtimeMs, ctimeMs) > TIME_STAMP_RESOLUTION_MS ? current : undefined;
      content = parse(decodeUtf8(await readFile(path)));
    } catch (error) {
      found = describe(error);
      signature = undefined;
    }
    if (found !== problem) onProblem?.(path, found);
    problem = found;
    return { content, problem: problem === undefined ? undefined : `${path}: ${problem}` };
  }

  return () => {
    // One at a time: an older read must not overwrite a newer one.
    const next = last.then(refresh);
    last = next.catch(() => undefined);
    return next;
  };
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return 'cannot be read';
  const code = codeOf(error);
  return code === undefined ? error.message : `cannot be read (${code})`;
}
