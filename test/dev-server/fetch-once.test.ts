import { mkdir, mkdtemp, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fetchOnce } from '../../src/dev-server/fetch-once.js';
import { eventually } from '../support/eventually.js';

let cache: string;

beforeEach(async () => {
  cache = await mkdtemp(join(tmpdir(), 'fetch-once-'));
});

afterEach(() => rm(cache, { recursive: true }));

describe('the cache of downloads', () => {
  const fetchOf = (name: string, fetch: () => Promise<string>) =>
    fetchOnce({ cacheDirectory: cache, name, lookUp: () => Promise.resolve(undefined), fetch });

  test('lets in one fetch of a name at a time, and leaves nothing behind, even if one fails', async () => {
    let inside = 0;
    let most = 0;
    const fetch = async () => {
      most = Math.max(most, ++inside);
      await new Promise(setImmediate);
      inside--;
      throw new Error('no luck');
    };
    const all = await Promise.allSettled([1, 2, 3, 4].map(() => fetchOf('thing', fetch)));
    expect(all).toEqual(Array(4).fill({ status: 'rejected', reason: new Error('no luck') }));
    expect(most).toBe(1);
    expect(await readdir(cache)).toEqual([]);
  });

  test('keeps its lock fresh while it fetches, and takes over the old lock of a dead process', async () => {
    const lock = join(cache, 'thing.lock');
    const longAgo = new Date(Date.now() - 6_000);
    await fetchOf('thing', async () => {
      await utimes(lock, longAgo, longAgo);
      await eventually('it is touched', async () => (await stat(lock)).mtimeMs > longAgo.getTime());
      return 'fetched';
    });
    await writeFile(lock, '');
    await utimes(lock, longAgo, longAgo);
    await mkdir(join(cache, '.thing-half-fetched'));
    expect(await fetchOf('thing', () => Promise.resolve('fetched'))).toBe('fetched');
    expect(await readdir(cache)).toEqual([]);
  });
});
