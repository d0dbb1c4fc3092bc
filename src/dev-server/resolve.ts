import { execFile } from 'node:child_process';
import { access, rename } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Environment } from '../config/index.js';
import { downloadsOf, fileNameOf, type ResolveOptions, type Source } from './download.js';
import { fetchOnce } from './fetch-once.js';
import { type PinnedServer, TEMPORAL_CLI } from './pins.js';
import { childEnvironment } from './process.js';

/**
 * Finds the Temporal CLI, whose `server start-dev` is the development server: `TEMPORAL_CLI_PATH`, `temporal` on PATH,
 * then as {@link resolvePinned} does.
 *
 * @returns the executable's path, or its name on PATH
 * @throws Error as {@link resolvePinned} does
 */
export async function resolveTemporalCli(options: ResolveOptions): Promise<string> {
  const { env } = options;
  const named = env['TEMPORAL_CLI_PATH'];
  const setting = async () => (named ? checkVersion(named, env) : undefined);
  const onPath = () =>
    checkVersion('temporal', env).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
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
  if (!stdout.startsWith('temporal version')) throw new Error(`${path} is not the Temporal CLI`);
  const server = /Server (\d+\.\d+)/.exec(stdout)?.[1];
  if (server !== undefined && server.localeCompare(MIN_SERVER_VERSION, 'en', { numeric: true }) < 0) {
    throw new Error(`${path} contains server ${server}; ${MIN_SERVER_VERSION} or newer is needed`);
  }
  return path;
}

/**
 * Tries the given sources and this project's cache, then downloads into the cache, one process at a time. Nothing runs
 * before its checksum is verified.
 *
 * @returns the executable's path
 * @throws Error on one line with every source's reason and the fix; if the cache can't be written; the reason of
 *   `signal` when it aborts
 */
export async function resolvePinned(
  server: PinnedServer,
  options: ResolveOptions,
  sources: readonly Source[] = [],
): Promise<string> {
  const { env, onProgress, signal } = options;
  const { what, fix } = server;
  const failures: string[] = [];
  const tryEach = async (each: readonly Source[]): Promise<string | undefined> => {
    for (const [name, find] of each) {
      signal?.throwIfAborted();
      try {
        const path = await find();
        if (path !== undefined) return path;
        failures.push(`${name}: not found`);
      } catch (error) {
        signal?.throwIfAborted();
        failures.push(`${name}: ${reasonOf(error)}`);
        onProgress?.(`${what}: ${name}: ${reasonOf(error)}`);
      }
    }
    return undefined;
  };

  const name = fileNameOf(server);
  const cached = () => join(cacheDirectory(env), name);
  const lookUp = () => access(cached()).then(cached, () => undefined);
  const found = await tryEach([...sources, ['cache', lookUp]]);
  if (found !== undefined) return found;
  onProgress?.(`${what}: ${failures.join('; ')}`);
  const fetch = async (directory: string) => {
    const file = await tryEach(downloadsOf(server, directory, options));
    if (file === undefined) throw new Error(`${what} is not available. Tried ${failures.join('; ')}. ${fix}`);
    await rename(file, cached());
    return cached();
  };
  return fetchOnce({ cacheDirectory: cacheDirectory(env), name, lookUp, fetch, onProgress, signal });
}

/** Directory of this project's downloads: `$XDG_CACHE_HOME/agent-follow-up`, otherwise `~/.cache/agent-follow-up`. */
export function cacheDirectory(env: Environment): string {
  return join(env['XDG_CACHE_HOME'] || join(env['HOME'] || homedir(), '.cache'), 'agent-follow-up');
}

const MAX_REASON_LENGTH = 200;

/** The end of an error's message, on one line. */
function reasonOf(error: unknown): string {
  const line = (error as Error).message.trim().replace(/\s*\n\s*/g, ' | ');
  return line.length > MAX_REASON_LENGTH ? `…${line.slice(-MAX_REASON_LENGTH)}` : line;
}
