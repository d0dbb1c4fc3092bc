import { constants, existsSync } from 'node:fs';
import { access, link, mkdir, mkdtemp, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { OnProgress } from './environment.js';

/** Errors of failed fetches of this process by lock file: no fetch is tried twice. */
const failures = new Map<string, unknown>();

/** What {@link fetchOnce} needs to know. */
interface FetchOptions<T> {
  cacheDirectory: string;
  /** Name of the fetch, unique in the cache. */
  name: string;
  /** Looks it up in the cache, where another process may have put it while this one waited for its turn. */
  lookUp: () => Promise<T | undefined>;
  /** Fetches it. The directory is empty, on the file system of the cache, and removed afterwards. */
  fetch: (temporaryDirectory: string) => Promise<T>;
  onProgress?: OnProgress | undefined;
}

/**
 * Fetches something into the cache once, even if several processes ask at the same time.
 *
 * @throws the error of `fetch`; the same one, at once, on every later call in this process
 */
export async function fetchOnce<T>({ cacheDirectory, name, lookUp, fetch, onProgress }: FetchOptions<T>): Promise<T> {
  await makeWritableDirectory(cacheDirectory);
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

/**
 * Makes a directory with its parents, unless it is there already.
 *
 * @throws the error of the file system if the directory cannot be made, is something else, or cannot be written
 */
export async function makeWritableDirectory(path: string): Promise<void> {
  await makeDirectory(path);
  // The dot makes a file of that name an error.
  await access(`${path}/.`, constants.W_OK);
}

/**
 * Asks for each parent once. The `recursive` of `mkdir` asks forever on a file system that answers ENOENT for a new
 * directory, such as /proc.
 */
async function makeDirectory(path: string): Promise<void> {
  const parent = dirname(path);
  if (parent !== path && !existsSync(parent)) await makeDirectory(parent);
  await mkdir(path).catch((error: unknown) => {
    if (!hasCode(error, 'EEXIST')) throw error;
  });
}

/** The holder touches its lock this often. */
const HEARTBEAT_MS = 1_000;
/** After this time without a touch the holder counts as dead, even if its process id is in use. */
const STALE_AFTER_MS = 10_000;
const POLL_INTERVAL_MS = 200;

/**
 * Runs an action under a lock file: one at a time across processes and within this process. The lock of a dead holder
 * is taken over.
 *
 * The lock only saves work: after a holder stood still for 10 s, two may run at once. So the action must put its result
 * in place with one rename.
 *
 * @param onWait called once if somebody else holds the lock, with the process id of the holder
 */
export async function withFileLock<T>(
  path: string,
  action: () => Promise<T>,
  onWait?: (pid: number) => void,
): Promise<T> {
  await mkdir(dirname(path), { recursive: true });
  for (let waited = false; !(await acquire(path)); waited = true) {
    const holder = await readPid(path);
    if (await isAbandoned(path, holder)) {
      await takeAway(path, holder);
      continue;
    }
    if (!waited && holder > 0) onWait?.(holder);
    await delay(POLL_INTERVAL_MS);
  }
  const heartbeat = setInterval(() => void utimes(path, new Date(), new Date()).catch(() => undefined), HEARTBEAT_MS);
  heartbeat.unref();
  try {
    return await action();
  } finally {
    clearInterval(heartbeat);
    await rm(path, { force: true });
  }
}

async function acquire(path: string): Promise<boolean> {
  try {
    await writeFile(path, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  }
}

/** Removes an abandoned lock, unless another waiter was faster and this is a new lock already. */
async function takeAway(path: string, holder: number): Promise<void> {
  const aside = `${path}.${randomUUID()}`;
  await rename(path, aside).catch(() => undefined);
  if ((await readPid(aside)) !== holder) await link(aside, path).catch(() => undefined);
  await rm(aside, { force: true });
}

/** 0 if it is not written yet, or is gone again. */
async function readPid(path: string): Promise<number> {
  return Number(await readFile(path, 'utf8').catch(() => '0'));
}

async function isAbandoned(path: string, pid: number): Promise<boolean> {
  if (pid > 0 && !isAlive(pid)) return true;
  const ageMs = await stat(path).then(
    ({ mtimeMs }) => Date.now() - mtimeMs,
    () => 0,
  );
  return ageMs > STALE_AFTER_MS;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return hasCode(error, 'EPERM');
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
