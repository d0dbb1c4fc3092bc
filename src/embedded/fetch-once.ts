import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { OnProgress } from './environment.js';
import { withFileLock } from './file-lock.js';

/** Errors of fetches that failed in this process, by lock file: none is tried twice. */
const failures = new Map<string, unknown>();

/** What {@link fetchOnce} needs to know. */
export interface FetchOptions<T> {
  cacheDirectory: string;
  /** Name of the fetch, unique in the cache. */
  name: string;
  /** The thing if it is in the cache, which may have come there while this process waited for its turn. */
  lookUp: () => Promise<T | undefined>;
  /** Makes the thing. The directory is empty, on the file system of the cache, and removed afterwards. */
  fetch: (temporaryDirectory: string) => Promise<T>;
  onProgress?: OnProgress | undefined;
}

/**
 * Brings something into the cache once, however many processes ask at the same time.
 *
 * @throws the error of `fetch`; the same one, at once, on every later call in this process
 */
export async function fetchOnce<T>({ cacheDirectory, name, lookUp, fetch, onProgress }: FetchOptions<T>): Promise<T> {
  await mkdir(cacheDirectory, { recursive: true });
  const lockPath = join(cacheDirectory, `${name}.lock`);
  return await withFileLock(
    lockPath,
    async () => {
      const found = await lookUp();
      if (found !== undefined) return found;
      if (failures.has(lockPath)) throw failures.get(lockPath);
      const temporaryDirectory = await mkdtemp(join(cacheDirectory, `.${name}-`));
      try {
        return await fetch(temporaryDirectory);
      } catch (error) {
        failures.set(lockPath, error);
        throw error;
      } finally {
        await rm(temporaryDirectory, { recursive: true, force: true });
      }
    },
    (pid) => onProgress?.(`${name}: waiting for process ${pid}, which is fetching it`),
  );
}
