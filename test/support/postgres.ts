import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { chmod, chown, mkdir, readdir, readFile, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import {
  childEnvironment,
  type ServerProcess,
  startServerProcess,
  waitUntilReady,
} from '../../src/dev-server/process.js';
import { findOnPath, isExecutable } from './programs.js';

const DEBIAN_DIRECTORY = '/usr/lib/postgresql';
const COMMAND_TIMEOUT_MS = 120_000;
const READY_TIMEOUT_MS = 60_000;

/**
 * The directory of `initdb`, `postgres` and `pg_isready`: that of `initdb` on PATH, or Debian's newest.
 *
 * @throws Error if there is none
 */
export async function findPostgresDirectory(): Promise<string> {
  const onPath = await findOnPath('initdb', process.env);
  const versions = (await readdir(DEBIAN_DIRECTORY).catch(() => [])).sort((a, b) => Number(b) - Number(a));
  // The file on PATH may be a link into its directory.
  const own = onPath === undefined ? [] : [dirname(await realpath(onPath))];
  for (const directory of [...own, ...versions.map((version) => join(DEBIAN_DIRECTORY, version, 'bin'))]) {
    const names = ['initdb', 'postgres', 'pg_isready'];
    const found = await Promise.all(names.map((name) => isExecutable(join(directory, name))));
    if (found.every(Boolean)) return directory;
  }
  throw new Error('PostgreSQL is missing: neither initdb on PATH nor /usr/lib/postgresql');
}

/** A PostgreSQL server at 127.0.0.1 with the user `temporal` and no password. It ends with this process. */
export interface Postgres {
  /** `fast` ends sessions and writes everything; `immediate` is a crash that needs recovery at the next start. */
  stop(mode: 'fast' | 'immediate'): Promise<void>;
  /** Starts it with the data of its last run. Does nothing while it runs. */
  start(): Promise<void>;
}

/** Makes a database cluster in `directory`, which logs to postgres.log there. Does not start it. */
export async function createPostgres(directory: string, port: number): Promise<Postgres> {
  const binaries = await findPostgresDirectory();
  const user = await unprivilegedUser();
  const dataDirectory = join(directory, 'postgres');
  await mkdir(dataDirectory, { recursive: true });
  if (user !== undefined) {
    await chmod(directory, 0o711);
    await chown(dataDirectory, user.uid, user.gid);
  }
  const processOptions = { env: childEnvironment(process.env), cwd: dataDirectory, ...user };
  const commandOptions = { ...processOptions, timeout: COMMAND_TIMEOUT_MS };
  await promisify(execFile)(
    join(binaries, 'initdb'),
    ['-D', join(dataDirectory, 'data'), '-U', 'temporal', '-A', 'trust', '-E', 'UTF8', '--no-locale'],
    commandOptions,
  );

  const log = createWriteStream(join(directory, 'postgres.log'), { flags: 'a' });
  let server: ServerProcess | undefined;
  // Tests kill only processes, so the page cache is safe enough.
  const settings = ['listen_addresses=127.0.0.1', `unix_socket_directories=${dataDirectory}`, 'max_connections=200'];
  return {
    start: async () => {
      if (server !== undefined && !server.hasExited()) return;
      const all = [...settings, 'fsync=off'].flatMap((each) => ['-c', each]);
      const args = ['-D', join(dataDirectory, 'data'), '-p', String(port), ...all];
      const onOutput = (text: string) => log.write(text);
      const started = startServerProcess(join(binaries, 'postgres'), args, { ...processOptions, onOutput });
      server = started;
      await waitUntilReady('PostgreSQL', started, READY_TIMEOUT_MS, async () => {
        const args = ['-q', '-h', '127.0.0.1', '-p', String(port), '-d', 'postgres', '-U', 'temporal'];
        await promisify(execFile)(join(binaries, 'pg_isready'), args, commandOptions);
        return true;
      });
    },
    stop: async (mode) => {
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
