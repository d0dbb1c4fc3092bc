import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** The holder touches its lock this often. */
const HEARTBEAT_MS = 2_000;
/** A lock that was not touched for so long belongs to nobody, whatever its process id says. */
const STALE_AFTER_MS = 30_000;
const POLL_INTERVAL_MS = 200;

interface Holder {
  pid: number;
  host: string;
  token: string;
}

/**
 * Runs an action while no other process, and no other call in this one, runs one under the same lock file. A lock whose
 * holder has died is taken over at once on the same host, elsewhere after 30 s without a heartbeat.
 *
 * Efficiency rests on it, correctness does not: what is written under it must still be put in place by one rename.
 *
 * @param onWait called once if the lock is held by somebody else, with the process id of the holder
 */
export async function withFileLock<T>(
  path: string,
  action: () => Promise<T>,
  onWait?: (pid: number) => void,
): Promise<T> {
  await mkdir(dirname(path), { recursive: true });
  const holder: Holder = { pid: process.pid, host: hostname(), token: randomUUID() };
  const draft = `${path}.${holder.token}`;
  await writeFile(draft, JSON.stringify(holder));
  try {
    await acquire(path, draft, onWait);
  } finally {
    await rm(draft, { force: true });
  }
  const heartbeat = setInterval(() => void utimes(path, new Date(), new Date()).catch(() => undefined), HEARTBEAT_MS);
  heartbeat.unref();
  try {
    return await action();
  } finally {
    clearInterval(heartbeat);
    if ((await readHolder(path))?.token === holder.token) await rm(path, { force: true });
  }
}

async function acquire(path: string, draft: string, onWait?: (pid: number) => void): Promise<void> {
  let waited = false;
  for (;;) {
    // A hard link is made or refused in one step, with its content already in place.
    try {
      await link(draft, path);
      return;
    } catch (error) {
      if (!isErrno(error, 'EEXIST')) throw error;
    }
    const holder = await readHolder(path);
    if (await isAbandoned(path, holder)) {
      const aside = `${draft}.taken`;
      await rename(path, aside).catch(() => undefined);
      const moved = await readHolder(aside);
      // Another waiter was quicker and the lock moved was its new one: give it back.
      if (moved && moved.token !== holder?.token) await link(aside, path).catch(() => undefined);
      await rm(aside, { force: true });
      continue;
    }
    if (!waited && holder) onWait?.(holder.pid);
    waited = true;
    await delay(POLL_INTERVAL_MS);
  }
}

async function isAbandoned(path: string, holder: Holder | undefined): Promise<boolean> {
  if (holder?.host === hostname() && !isAlive(holder.pid)) return true;
  try {
    return Date.now() - (await stat(path)).mtimeMs > STALE_AFTER_MS;
  } catch {
    return false;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isErrno(error, 'EPERM');
  }
}

async function readHolder(path: string): Promise<Holder | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(path, 'utf8'));
    return isHolder(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isHolder(value: unknown): value is Holder {
  return typeof value === 'object' && value !== null && 'pid' in value && 'host' in value && 'token' in value;
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
