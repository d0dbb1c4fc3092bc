import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** The holder touches its lock this often. */
const HEARTBEAT_MS = 1_000;
/** A lock that was not touched for so long has lost its holder, whatever its process id says. */
const STALE_AFTER_MS = 10_000;
const POLL_INTERVAL_MS = 200;

/**
 * Runs an action while no other process, and no other call in this one, runs one under the same lock file. A lock whose
 * holder has died is taken over.
 *
 * It saves work, and no more: two may be in at once after a holder stood still for 10 s. What is written under it must
 * still be put in place by one rename.
 *
 * @param onWait called once if the lock is held by somebody else, with the process id of the holder
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

/** Removes a lock, unless another waiter was quicker and the lock is a new one by now. */
async function takeAway(path: string, holder: number): Promise<void> {
  const aside = `${path}.${randomUUID()}`;
  await rename(path, aside).catch(() => undefined);
  if ((await readPid(aside)) !== holder) await link(aside, path).catch(() => undefined);
  await rm(aside, { force: true });
}

/** 0 where it is not written yet, or gone again. */
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
