import { chmod, cp, mkdir, readdir, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fetchOnce } from '../../src/dev-server/fetch-once.js';
import { cacheDirectory } from '../../src/dev-server/resolve.js';
import { downloadGoModule, runGo } from './go-tools.js';
import { GO_SERVER_MODULE } from './pins.js';
import { isExecutable, say } from './programs.js';

/** Which of the pinned servers. docker-compose.yml runs the newest. */
export type ServerAge = 'newest' | 'oldest';

/** Which development server this test run uses. `TEST_TEMPORAL_SERVER=oldest` chooses the oldest. */
export const testServerAge: ServerAge = process.env['TEST_TEMPORAL_SERVER'] === 'oldest' ? 'oldest' : 'newest';

/** The files of a Temporal server and its SQL schema. */
export interface TemporalServerBinaries {
  /** Has all roles: frontend, history, matching, worker. */
  server: string;
  /** Makes and updates SQL schemas. */
  sqlTool: string;
  /** Contains `temporal/versioned` and `visibility/versioned` for PostgreSQL 12 and newer. */
  schemaDirectory: string;
}

/** Finds the server in the cache, or builds it with Go, which takes some minutes once. */
export async function resolveTemporalServer(age: ServerAge): Promise<TemporalServerBinaries> {
  const cache = cacheDirectory(process.env);
  const name = `temporal-server-${GO_SERVER_MODULE[age].version}`;
  const directory = join(cache, name);
  const files = { server: join(directory, 'server'), sqlTool: join(directory, 'sql') };
  const lookUp = async () =>
    (await isExecutable(files.server)) && (await isExecutable(files.sqlTool)) ? directory : undefined;
  if ((await lookUp()) === undefined) {
    const fetch = (temporaryDirectory: string) => build(age, temporaryDirectory, directory);
    await fetchOnce({ cacheDirectory: cache, name, lookUp, onProgress: say, fetch });
  }
  return { ...files, schemaDirectory: join(directory, 'schema') };
}

async function build(age: ServerAge, temporaryDirectory: string, directory: string): Promise<string> {
  const module = { path: GO_SERVER_MODULE.path, ...GO_SERVER_MODULE[age] };
  say(`Temporal server: building ${module.version} with Go, once; this takes some minutes`);
  const bundle = join(temporaryDirectory, 'bundle');
  await mkdir(bundle);
  const moduleDirectory = await downloadGoModule(module);
  const commands = ['/cmd/server', '/cmd/tools/sql'].map((path) => `${module.path}${path}@${module.version}`);
  await runGo(['install', ...commands], temporaryDirectory, { GOBIN: bundle });
  await cp(join(moduleDirectory, 'schema/postgresql/v12'), join(bundle, 'schema'), { recursive: true });
  await makeWritable(join(bundle, 'schema'));
  await rename(bundle, directory);
  return directory;
}

/** Makes a copy from Go's module cache writable. The cache is read-only. */
async function makeWritable(directory: string): Promise<void> {
  await chmod(directory, 0o755);
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    if ((await stat(path)).isDirectory()) await makeWritable(path);
    else await chmod(path, 0o644);
  }
}
