import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { chmod, chown, mkdir, readdir, readFile, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Environment } from '../../src/config/index.js';
import {
  childEnvironment,
  startServerProcess,
  waitUntilReady,
  type ServerProcess,
} from '../../src/dev-server/process.js';
import { findOnPath, isExecutable } from './programs.js';

const DEBIAN_DIRECTORY = '/usr/lib/postgresql';
const COMMAND_TIMEOUT_MS = 120_000;
const READY_TIMEOUT_MS = 60_000;

/** The directory of `initdb`, `postgres` and `pg_isready`: that of `initdb` on PATH, or Debian's newest. */
export async function findPostgresDirectory(env: Environment): Promise<string | undefined> {
  const onPath = await findOnPath('initdb', env);
  // The file on PATH may be a link into that directory.
  if (onPath !== undefined && (await hasAll(dirname(await realpath(onPath))))) return dirname(await realpath(onPath));
  const versions = await readdir(DEBIAN_DIRECTORY).catch(() => []);
  for (const version of versions.sort((a, b) => Number(b) - Number(a))) {
    const directory = join(DEBIAN_DIRECTORY, version, 'bin');
    if (await hasAll(directory)) return directory;
  }
  return undefined;
}

async function hasAll(directory: string): Promise<boolean> {
  const found = await Promise.all(
    ['initdb', 'postgres', 'pg_isready'].map((name) => isExecutable(join(directory, name))),
  );
  return found.every(Boolean);
}

/** A PostgreSQL server at 127.0.0.1 with the user `temporal` and no password. It ends with this process. */
export interface Postgres {
  readonly port: number;
  /** The id of its main process, whose children serve the connections. @throws Error before the first start */
  pid(): number;
  /** Contains the tables of all databases. */
  readonly tableDirectory: string;
  /** `fast` ends sessions and writes everything; `immediate` is a crash that needs recovery at the next start. */
  stop(mode?: 'fast' | 'immediate'): Promise<void>;
  /** Starts it with the data of its last run. Does nothing while it runs. */
  start(): Promise<void>;
}

/**
 * Makes a database cluster in `directory`, which logs to postgres.log there. Does not start it.
 *
 * @param fsync whether commits are flushed to the disk. Tests kill only processes, so they need the page cache alone.
 */
export async function createPostgres(
  directory: string,
  port: number,
  env: Environment,
  fsync: boolean,
): Promise<Postgres> {
  const binaries = await findPostgresDirectory(env);
  if (binaries === undefined) throw new Error('PostgreSQL is missing: neither initdb on PATH nor /usr/lib/postgresql');
  const user = await unprivilegedUser();
  const dataDirectory = join(directory, 'postgres');
  await mkdir(dataDirectory, { recursive: true });
  if (user !== undefined) {
    await chmod(directory, 0o711);
    await chown(dataDirectory, user.uid, user.gid);
  }
  const processOptions = { env: childEnvironment(env), cwd: dataDirectory, ...user };
  const commandOptions = { ...processOptions, timeout: COMMAND_TIMEOUT_MS };
  await promisify(execFile)(
    join(binaries, 'initdb'),
    ['-D', join(dataDirectory, 'data'), '-U', 'temporal', '-A', 'trust', '-E', 'UTF8', '--no-locale'],
    commandOptions,
  );

  const log = createWriteStream(join(directory, 'postgres.log'), { flags: 'a' });
  let server: ServerProcess | undefined;
  const settings = [
    'listen_addresses=127.0.0.1',
    `unix_socket_directories=${dataDirectory}`,
    'max_connections=200',
    `fsync=${fsync ? 'on' : 'off'}`,
  ];
  return {
    port,
    pid: () => {
      if (server === undefined) throw new Error('PostgreSQL has not been started');
      return server.pid;
    },
    tableDirectory: join(dataDirectory, 'data', 'base'),
    start: async () => {
      if (server !== undefined && !server.hasExited()) return;
      const args = ['-D', join(dataDirectory, 'data'), '-p', String(port), ...settings.flatMap((each) => ['-c', each])];
      const started = startServerProcess(join(binaries, 'postgres'), args, {
        ...processOptions,
        onOutput: (text) => log.write(text),
      });
      server = started;
      await waitUntilReady('PostgreSQL', started, READY_TIMEOUT_MS, async () => {
        const args = ['-q', '-h', '127.0.0.1', '-p', String(port), '-d', 'postgres', '-U', 'temporal'];
        await promisify(execFile)(join(binaries, 'pg_isready'), args, commandOptions);
        return true;
      });
    },
    stop: async (mode = 'fast') => {
      if (server === undefined || server.hasExited()) return;
      await server.kill(mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
    },
  };
}

/** The user `postgres` or `nobody` if this process runs as root, as which PostgreSQL refuses to run. */
async function unprivilegedUser(): Promise<{ uid: number; gid: number } | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const lines = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'));
  for (const name of ['postgres', 'nobody']) {
    const [, , uid, gid] = lines.find(([each]) => each === name) ?? [];
    if (uid !== undefined && gid !== undefined) return { uid: Number(uid), gid: Number(gid) };
  }
  throw new Error('PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody');
}
