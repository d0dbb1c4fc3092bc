import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheDirectory, type Environment, type OnProgress } from './environment.js';
import { fetchOnce, makeWritableDirectory } from './fetch-once.js';

/** Settings of the resolvers. */
export interface ResolveOptions {
  env: Environment;
  onProgress?: OnProgress | undefined;
  /** Cancels the search: no further step is tried, and the command of the current step is killed. */
  signal?: AbortSignal | undefined;
}

/** Where a server was found. */
type BinarySource = 'setting' | 'path' | 'cache' | 'sdk-download' | 'pip' | 'go-install' | 'maven';

/** An executable that is ready to run. */
export interface ResolvedBinary {
  /** Absolute path. */
  path: string;
  source: BinarySource;
}

/** One place to look. Throws an error that says why it has nothing. */
export interface ResolveStep {
  /** For people, such as `temporal on PATH`. */
  name: string;
  source: BinarySource;
  /** @returns path of the executable */
  run: () => Promise<string>;
}

/** One way to fetch a server. Throws an error that says why it gave nothing. */
export interface FetchStep {
  /** For people, such as `the SDK's own download`. */
  name: string;
  source: BinarySource;
  /**
   * @param temporaryDirectory empty, on the file system of the cache, removed afterwards
   * @returns path of the executable in the cache
   */
  run: (temporaryDirectory: string) => Promise<string>;
}

/** A step has nothing, as expected: this is reported only once something has to be fetched. */
export class NotHereError extends Error {
  override readonly name = 'NotHereError';
}

/** Why one step gave nothing. */
interface FailedStep {
  name: string;
  reason: string;
}

/** No step found a server. The message is one line with every step, its reason, and what to do. */
export class BinaryUnavailableError extends Error {
  override readonly name = 'BinaryUnavailableError';

  constructor(
    readonly what: string,
    readonly failedSteps: readonly FailedStep[],
    readonly fix: string,
  ) {
    const reasons = failedSteps.map(({ name, reason }) => `${name}: ${reason}`).join('; ');
    super(`${what} is not available. Tried ${reasons}. ${fix}`);
  }
}

/** What {@link resolveBinary} needs to know. */
export interface Resolution extends ResolveOptions {
  /** For people, such as `Temporal CLI`. */
  what: string;
  /** Tried in order, before the cache. */
  local: readonly ResolveStep[];
  /** Path in the cache if it is there. */
  findCached: () => Promise<string | undefined>;
  /** Unique in the cache. */
  fetchName: string;
  /** Tried in order, after the cache; by one process at a time, and once per process. */
  fetches: readonly FetchStep[];
  /** What to do if no step succeeds. */
  fix: string;
}

/**
 * Tries the steps in order until one returns a path: the local ones, the cache, the fetches.
 *
 * @throws {@link BinaryUnavailableError} when none does; the reason of `signal` when that aborts
 */
export async function resolveBinary(resolution: Resolution): Promise<ResolvedBinary> {
  const { what, env, onProgress, signal, findCached } = resolution;
  const cache = cacheDirectory(env);
  const failedSteps: FailedStep[] = [];
  const notTold: string[] = [];
  const fail = (name: string, error: unknown) => {
    signal?.throwIfAborted();
    const reason = (error instanceof Error ? error.message : String(error)).replace(/\s*\n\s*/g, ' ');
    failedSteps.push({ name, reason });
    notTold.push(`${what}: ${name}: ${reason}`);
    if (!(error instanceof NotHereError)) tellAll();
  };
  const tellAll = () => notTold.splice(0).forEach((message) => onProgress?.(message));

  for (const { name, source, run } of [...resolution.local, cacheStep(cache, findCached)]) {
    try {
      return { path: await run(), source };
    } catch (error) {
      fail(name, error);
    }
  }
  tellAll();
  try {
    await makeWritableDirectory(cache);
  } catch (error) {
    fail(`a download into ${cache}`, error);
    const fix = `Set XDG_CACHE_HOME to a directory that can be written. Otherwise: ${resolution.fix}`;
    throw new BinaryUnavailableError(what, failedSteps, fix);
  }
  return await fetchOnce<ResolvedBinary>({
    cacheDirectory: cache,
    name: resolution.fetchName,
    onProgress,
    lookUp: async () => {
      const path = await findCached();
      return path === undefined ? undefined : { path, source: 'cache' };
    },
    fetch: async (temporaryDirectory) => {
      for (const { name, source, run } of resolution.fetches) {
        try {
          const directory = join(temporaryDirectory, source);
          await mkdir(directory);
          return { path: await run(directory), source };
        } catch (error) {
          fail(name, error);
        }
      }
      throw new BinaryUnavailableError(what, failedSteps, resolution.fix);
    },
  });
}

function cacheStep(cache: string, findCached: Resolution['findCached']): ResolveStep {
  return {
    name: `cache ${cache}`,
    source: 'cache',
    run: async () => {
      const path = await findCached();
      if (path === undefined) throw new NotHereError('holds none yet');
      return path;
    },
  };
}
