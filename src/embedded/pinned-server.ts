import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { chmod, mkdir, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { PinnedPlatform, PinnedServer } from './pins.js';

/** Path in the cache of a server whose executable is pinned: each version has a directory of its own. */
export function pinnedPath(cacheDirectory: string, { executable, version }: PinnedServer): string {
  const suffix = process.platform === 'win32' ? '.exe' : '';
  return join(cacheDirectory, `${executable}-${version}`, executable + suffix);
}

/** Checksums for this machine, or `undefined` where the server is not packaged for it. */
export function pinsOf({ platforms }: PinnedServer) {
  const pins: Partial<PinnedServer['platforms']> = platforms;
  return pins[`${process.platform}-${process.arch}` as PinnedPlatform];
}

/** Whether this Node runs on glibc, and hence executables that need it run, too. */
export function hasGlibc(): boolean {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return header.glibcVersionRuntime !== undefined;
}

/** @throws Error that names both checksums when a file is not the pinned one */
export async function checkSha256(path: string, pinned: string): Promise<void> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  const found = hash.digest('hex');
  if (found !== pinned) throw new Error(`${basename(path)} has SHA-256 ${found}, but ${pinned} is pinned`);
}

/** Moves an executable to its place in the cache: it is there whole, or not at all. */
export async function putInPlace(file: string, path: string): Promise<string> {
  await chmod(file, 0o755);
  await mkdir(dirname(path), { recursive: true });
  await rename(file, path);
  return path;
}
