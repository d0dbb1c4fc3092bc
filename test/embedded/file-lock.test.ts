import { spawn } from 'node:child_process';
import { mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { withFileLock } from '../../src/embedded/file-lock.js';

describe('a file lock', () => {
  let directory: string;
  let path: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'file-lock-'));
    path = join(directory, 'thing.lock');
  });

  afterEach(() => rm(directory, { recursive: true, force: true }));

  test('lets one at a time in, and leaves nothing behind', async () => {
    let inside = 0;
    let most = 0;
    const enter = () =>
      withFileLock(path, async () => {
        most = Math.max(most, ++inside);
        await delay(20);
        inside--;
      });
    await Promise.all(Array.from({ length: 6 }, enter));
    expect(most).toBe(1);
    expect(await readdir(directory)).toEqual([]);
  });

  test('is given back when the action fails', async () => {
    await expect(withFileLock(path, () => Promise.reject(new Error('no luck')))).rejects.toThrow('no luck');
    expect(await withFileLock(path, () => Promise.resolve('again'))).toBe('again');
  });

  test('is taken over at once when its holder has died', async () => {
    const dead = await endedProcess();
    await writeFile(path, JSON.stringify({ pid: dead, host: hostname(), token: 'left behind' }));
    const entered = await Promise.all([1, 2, 3].map((each) => withFileLock(path, () => Promise.resolve(each))));
    expect(entered).toEqual([1, 2, 3]);
    expect(await readdir(directory)).toEqual([]);
  });

  test('of another host is taken over once its heartbeat is 30 s old', async () => {
    await writeFile(path, JSON.stringify({ pid: process.pid, host: 'another-host', token: 'elsewhere' }));
    let entered = false;
    const waiting: number[] = [];
    const lock = withFileLock(
      path,
      () => {
        entered = true;
        return Promise.resolve();
      },
      (pid) => {
        waiting.push(pid);
        expect(entered).toBe(false);
        const longAgo = new Date(Date.now() - 31_000);
        void utimes(path, longAgo, longAgo);
      },
    );
    await lock;
    expect(waiting).toEqual([process.pid]);
    expect(entered).toBe(true);
  });

  test('is touched while it is held', async () => {
    const longAgo = new Date(Date.now() - 60_000);
    await withFileLock(path, async () => {
      await utimes(path, longAgo, longAgo);
      const deadline = Date.now() + 10_000;
      while ((await stat(path)).mtimeMs <= longAgo.getTime() && Date.now() < deadline) await delay(50);
      expect((await stat(path)).mtimeMs).toBeGreaterThan(longAgo.getTime());
    });
  });
});

async function endedProcess(): Promise<number> {
  const child = spawn(process.execPath, ['-e', '0']);
  await new Promise((resolve) => child.once('exit', resolve));
  return child.pid ?? 0;
}
