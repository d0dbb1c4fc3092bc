import { readFile, stat } from 'node:fs/promises';

/**
 * A file that changed less than this before it was read is read again at the next use: a second change within the
 * resolution of its time stamp (2 s on the coarsest file systems) would show no difference.
 */
const TIME_STAMP_RESOLUTION_MS = 2_000;

/** A file's content, parsed, and read again when the file changes. */
export interface WatchedFile<T> {
  /** The newest good content; `undefined` where there never was one. Never throws. */
  read(): Promise<T | undefined>;
  /** Why the file cannot be used now, though its last good content may be in use. Never throws. */
  problem(): Promise<string | undefined>;
}

/** Settings of {@link createWatchedFile}. */
export interface WatchedFileOptions<T> {
  path: string;
  /** Throws an `Error` whose message says what is wrong, without secrets. */
  parse: (text: string) => T;
  /** Told each new problem once, and `undefined` when the file is good again. */
  onProblem: (problem: string | undefined) => void;
}

/**
 * Watches a file by looking at it (time of change, size, inode) at each use, which also sees files swapped by a rename
 * or a symbolic link. A file that is missing or bad leaves the last good content in use.
 */
export function createWatchedFile<T>(options: WatchedFileOptions<T>): WatchedFile<T> {
  let content: T | undefined;
  let signature: string | undefined;
  let problem: string | undefined;
  let last: Promise<unknown> = Promise.resolve();

  async function refresh(): Promise<T | undefined> {
    let found: string | undefined;
    try {
      const { mtimeMs, ctimeMs, size, ino } = await stat(options.path);
      const current = `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
      if (current === signature) return content;
      // Kept before the reading: a change in the midst of it shows as a difference at the next use.
      signature = Date.now() - Math.max(mtimeMs, ctimeMs) > TIME_STAMP_RESOLUTION_MS ? current : undefined;
      content = options.parse(await readFile(options.path, 'utf8'));
    } catch (error) {
      found = describe(error);
      signature = undefined;
    }
    if (found !== problem) options.onProblem(found);
    problem = found;
    return content;
  }

  function read(): Promise<T | undefined> {
    // One after the other: an older look must not overwrite a newer one.
    const next = last.then(refresh);
    last = next.catch(() => undefined);
    return next;
  }

  return { read, problem: () => read().then(() => problem) };
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return 'cannot be read';
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  return code === undefined ? error.message : `cannot be read (${code})`;
}
