import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { OnProgress } from './process.js';

interface FetchOptions<T> {
  cacheDirectory: string;
  /** Unique in the cache. */
  name: string;
  /** Finds it in the cache, where another process may have put it during the wait. */
  lookUp: () => Promise<T | undefined>;
  /**
   * Puts it into the cache with one rename. The given directory is empty, on the same file system, and removed
   * afterwards.
   */
  fetch: (temporaryDirectory: string) => Promise<T>;
  onProgress?: OnProgress | undefined;
  /** Ends the wait for another process. */
  signal?: AbortSignal | undefined;
}

const POLL_INTERVAL_MS = 200;
/** Interval at which the lock's holder touches it. */
const HEARTBEAT_MS = 500;
/** After this time without a touch, the holder counts as dead. */
const STALE_AFTER_MS = 5_000;

/**
 * Fetches a file into the cache once, even if several processes ask simultaneously. The lock only saves work: two may
 * fetch if a holder stands still for 5 s.
 *
 * @throws Error if the cache can't be written; the error of `fetch`
 */
export async function fetchOnce<T>(options: FetchOptions<T>): Promise<T> {
  const { cacheDirectory, name, lookUp, fetch, onProgress, signal } = options;
  const lock = join(cacheDirectory, `${name}.lock`);
  for (let waits = 0; !(await create(lock)); waits++) {
    const { mtimeMs } = await stat(lock).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > STALE_AFTER_MS) await rm(lock, { force: true });
    else if (waits === 0) onProgress?.(`${name}: waiting for another process, which is fetching it`);
    await delay(POLL_INTERVAL_MS, undefined, { signal });
  }
  const heartbeat = setInterval(() => void utimes(lock, new Date(), new Date()).catch(() => undefined), HEARTBEAT_MS);
  const temporaryDirectory = join(cacheDirectory, `.${name}-${randomUUID()}`);
  try {
    // A killed holder leaves its own.
    const left = (await readdir(cacheDirectory)).filter((each) => each.startsWith(`.${name}-`));
    for (const each of left) await rm(join(cacheDirectory, each), { recursive: true, force: true });
    await mkdir(temporaryDirectory);
    return (await lookUp()) ?? (await fetch(temporaryDirectory));
  } finally {
    clearInterval(heartbeat);
    await rm(temporaryDirectory, { recursive: true, force: true });
    await rm(lock, { force: true });
  }
}

async function create(lock: string): Promise<boolean> {
  try {
    await mkdir(join(lock, '..'), { recursive: true });
    await writeFile(lock, '', { flag: 'wx' });
    return true;
  } catch (error) {
    const { code, path, message } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && path === lock) return false;
    const text = `the cache cannot be written; set XDG_CACHE_HOME to a writable directory (${message})`;
    throw new Error(text, { cause: error });
  }
}
