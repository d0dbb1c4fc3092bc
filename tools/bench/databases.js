/**
 * Temporal servers to measure with, each with a new database. All have `address`, `databaseBytes()`, `stop()` and
 * `pids`: the CPU time of these processes and their children is the server's.
 */
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startDevServer } from '../../dist/dev-server/index.js';
import { loadFromSource } from '../scripts/run-from-source.js';

/** The development server on a SQLite file. */
async function startOnSqlite(env) {
  const directory = await mkdtemp(join(tmpdir(), 'follow-up-bench-'));
  const dbFile = join(directory, 'temporal.sqlite');
  const server = await startDevServer({ env, args: ['--db-filename', dbFile] });
  return {
    address: server.address,
    pids: [server.pid],
    databaseBytes: () => bytesOf([dbFile, `${dbFile}-wal`]),
    stop: async () => {
      await server.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** A server with all roles on PostgreSQL, as the tests start it. Go builds the server once. */
async function startOnPostgres(env) {
  const { module, close } = await loadFromSource('/test/support/postgres-rig.ts');
  const onProgress = (message) => void process.stderr.write(`${message}\n`);
  const rig = await module.startPostgresRig({ env, onProgress, fsync: true });
  return {
    address: rig.address,
    pids: rig.pids(),
    databaseBytes: async () => {
      const entries = await readdir(rig.tableDirectory, { recursive: true, withFileTypes: true });
      return bytesOf(entries.filter((entry) => entry.isFile()).map((file) => join(file.parentPath, file.name)));
    },
    stop: async () => {
      await rig.stop();
      await close();
    },
  };
}

/** The databases by their names in the benchmarks' options. */
export const DATABASES = { sqlite: startOnSqlite, postgres: startOnPostgres };

/** Total size of files. A file that is gone counts as 0. */
async function bytesOf(paths) {
  const sizes = paths.map((path) =>
    stat(path).then(
      ({ size }) => size,
      () => 0,
    ),
  );
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
