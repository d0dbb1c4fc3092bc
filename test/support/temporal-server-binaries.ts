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
import { lastWords, runCommand } from '../../src/embedded/run-command.js';

/** The server that docker-compose.yml runs, and that the pinned CLI holds. */
export const TEMPORAL_SERVER_VERSION = 'v1.29.1';

const MODULE = 'go.temporal.io/server';
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
  env: Environment,
  onProgress?: OnProgress,
): Promise<TemporalServerBinaries> {
  const cache = cacheDirectory(env);
  const name = `temporal-server-${TEMPORAL_SERVER_VERSION}`;
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
      fetch: (temporaryDirectory) => build(temporaryDirectory, directory, env, onProgress),
    });
  }
  return { ...files, schemaDirectory: join(directory, 'schema') };
}

async function build(
  temporaryDirectory: string,
  directory: string,
  env: Environment,
  onProgress: OnProgress | undefined,
): Promise<string> {
  const go = await findOnPath('go', env);
  if (go === undefined) throw new Error('Temporal server cannot be built: Go is not on PATH');
  onProgress?.(`Temporal server: building ${TEMPORAL_SERVER_VERSION} with Go, once; this takes some minutes`);
  const bundle = join(temporaryDirectory, 'bundle');
  await mkdir(bundle);
  const versioned = (path: string) => `${MODULE}${path}@${TEMPORAL_SERVER_VERSION}`;
  const options = { env: { ...childEnvironment(env), GOBIN: bundle }, cwd: temporaryDirectory };
  const installed = await runCommand(go, ['install', versioned('/cmd/server'), versioned('/cmd/tools/sql')], {
    ...options,
    timeoutMs: BUILD_TIMEOUT_MS,
    onTick: (elapsedMs) => onProgress?.(`Temporal server: building, ${Math.round(elapsedMs / 1_000)} s so far`),
  });
  if (installed.exitCode !== 0) throw new Error(`Temporal server cannot be built: ${lastWords(installed)}`);
  const module = await runCommand(go, ['mod', 'download', '-json', versioned('')], {
    ...options,
    timeoutMs: BUILD_TIMEOUT_MS,
  });
  if (module.exitCode !== 0) throw new Error(`Schema of the Temporal server cannot be had: ${lastWords(module)}`);
  const { Dir } = z.object({ Dir: z.string() }).parse(JSON.parse(module.stdout));
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
