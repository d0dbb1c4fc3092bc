import { spawn } from 'node:child_process';
import { mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { withFileLock } from '../../src/embedded/fetch-once.js';
import { eventually } from '../support/eventually.js';

describe('a file lock', () => {
  let directory: string;
  let path: string;

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'file-lock-'));
    path = join(directory, 'thing.lock');
  });

  afterEach(() => rm(directory, { recursive: true, force: true }));

  test('lets in one at a time, and leaves nothing behind', async () => {
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

  test('is released when the action fails', async () => {
    await expect(withFileLock(path, () => Promise.reject(new Error('no luck')))).rejects.toThrow('no luck');
    expect(await withFileLock(path, () => Promise.resolve('again'))).toBe('again');
  });

  test('is taken over at once when its holder has died', async () => {
    await writeFile(path, String(await endedProcess()));
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

  test('is taken over if its holder has not touched it for 10 s', async () => {
    await writeFile(path, String(process.pid));
    const waiting: number[] = [];
    await withFileLock(
      path,
      () => Promise.resolve(),
      (pid) => {
        waiting.push(pid);
        const longAgo = new Date(Date.now() - 11_000);
        void utimes(path, longAgo, longAgo);
      },
    );
    expect(waiting).toEqual([process.pid]);
  });

  test('is touched while it is held', async () => {
    const longAgo = new Date(Date.now() - 60_000);
    await withFileLock(path, async () => {
      await utimes(path, longAgo, longAgo);
      await eventually('it is touched', async () => (await stat(path)).mtimeMs > longAgo.getTime());
    });
  });
});

async function endedProcess(): Promise<number> {
  const child = spawn(process.execPath, ['-e', '0']);
  await new Promise((resolve) => child.once('exit', resolve));
  return child.pid ?? 0;
}
