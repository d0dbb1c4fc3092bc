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

/** This machine, if servers are packaged for it. */
export function thisPlatform({ platforms }: PinnedServer): PinnedPlatform | undefined {
  const name = `${process.platform}-${process.arch}`;
  return name in platforms ? (name as PinnedPlatform) : undefined;
}

/** Whether this Node runs on glibc, and hence executables that need it run, too. */
export function hasGlibc(): boolean {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  return header.glibcVersionRuntime !== undefined;
}

/** SHA-256 of a file, in hex. */
export async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

/** @throws Error that names both checksums when a file is not the pinned one */
export async function checkSha256(path: string, pinned: string): Promise<void> {
  const found = await sha256Of(path);
  if (found !== pinned) throw new Error(`${basename(path)} has SHA-256 ${found}, but ${pinned} is pinned`);
}

/** Moves an executable to its place in the cache: it is there whole, or not at all. */
export async function putInPlace(file: string, path: string): Promise<string> {
  await chmod(file, 0o755);
  await mkdir(dirname(path), { recursive: true });
  await rename(file, path);
  return path;
}
