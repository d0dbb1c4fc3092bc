import { chmod, cp, mkdir, readdir, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import {
  cacheDirectory,
  childEnvironment,
  findOnPath,
  isExecutable,
  type Environment,
  type OnProgress,
} from '../../src/embedded/environment.js';
import { fetchOnce } from '../../src/embedded/fetch-once.js';
import { GO_SERVER_MODULE } from '../../src/embedded/pins.js';
import { lastWords, runCommand } from '../../src/embedded/run-command.js';

/** Which of the pinned servers: docker-compose.yml runs the newest. */
export type ServerAge = 'newest' | 'oldest';

/** Which development server the tests of this run have: `npm run test:oldest` asks for the oldest. */
export const testServerAge: ServerAge = process.env['TEST_TEMPORAL_SERVER'] === 'oldest' ? 'oldest' : 'newest';

const BUILD_TIMEOUT_MS = 1_800_000;

/** Files of a Temporal server with its SQL schema. */
export interface TemporalServerBinaries {
  /** All roles: frontend, history, matching, worker. */
  server: string;
  /** Makes and updates SQL schemas. */
  sqlTool: string;
  /** Holds `temporal/versioned` and `visibility/versioned` for PostgreSQL 12 and newer. */
  schemaDirectory: string;
}

/** Finds the server in the cache, or builds it with Go: some minutes, once. */
export async function resolveTemporalServer(
  age: ServerAge,
  env: Environment,
  onProgress?: OnProgress,
): Promise<TemporalServerBinaries> {
  const cache = cacheDirectory(env);
  const name = `temporal-server-${GO_SERVER_MODULE[age].version}`;
  const directory = join(cache, name);
  const files = { server: join(directory, 'server'), sqlTool: join(directory, 'sql') };
  const lookUp = async () =>
    (await isExecutable(files.server)) && (await isExecutable(files.sqlTool)) ? directory : undefined;
  if ((await lookUp()) === undefined) {
    await fetchOnce({
      cacheDirectory: cache,
      name,
      lookUp,
      onProgress,
      fetch: (temporaryDirectory) => build(age, temporaryDirectory, directory, env, onProgress),
    });
  }
  return { ...files, schemaDirectory: join(directory, 'schema') };
}

async function build(
  age: ServerAge,
  temporaryDirectory: string,
  directory: string,
  env: Environment,
  onProgress: OnProgress | undefined,
): Promise<string> {
  const go = await findOnPath('go', env);
  if (go === undefined) throw new Error('Temporal server cannot be built: Go is not on PATH');
  const { version, sum } = GO_SERVER_MODULE[age];
  onProgress?.(`Temporal server: building ${version} with Go, once; this takes some minutes`);
  const bundle = join(temporaryDirectory, 'bundle');
  await mkdir(bundle);
  const versioned = (path: string) => `${GO_SERVER_MODULE.path}${path}@${version}`;
  const run = async (args: readonly string[]) => {
    const result = await runCommand(go, args, {
      env: { ...childEnvironment(env), GOBIN: bundle },
      cwd: temporaryDirectory,
      timeoutMs: BUILD_TIMEOUT_MS,
      onTick: (elapsedMs) => onProgress?.(`Temporal server: building, ${Math.round(elapsedMs / 1_000)} s so far`),
    });
    if (result.exitCode !== 0) throw new Error(`Temporal server cannot be built: ${lastWords(result)}`);
    return result.stdout;
  };
  const module = await run(['mod', 'download', '-json', versioned('')]);
  const { Dir, Sum } = z.object({ Dir: z.string(), Sum: z.string() }).parse(JSON.parse(module));
  if (Sum !== sum) throw new Error(`${versioned('')} has checksum ${Sum}, but ${sum} is pinned`);
  await run(['install', versioned('/cmd/server'), versioned('/cmd/tools/sql')]);
  await cp(join(Dir, 'schema/postgresql/v12'), join(bundle, 'schema'), { recursive: true });
  await makeWritable(join(bundle, 'schema'));
  await rename(bundle, directory);
  return directory;
}

/** Go's module cache is read-only, and so are copies from it. */
async function makeWritable(directory: string): Promise<void> {
  await chmod(directory, 0o755);
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    if ((await stat(path)).isDirectory()) await makeWritable(path);
    else await chmod(path, 0o644);
  }
}
