import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';

/** Environment variables, passed down from the configuration. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Receives one line of progress for people. */
export type OnProgress = (message: string) => void;

/**
 * Directory for everything that this project downloads: `$XDG_CACHE_HOME/agent-follow-up`, else
 * `~/.cache/agent-follow-up`.
 */
export function cacheDirectory(env: Environment): string {
  const home = env['HOME'] || homedir();
  return join(env['XDG_CACHE_HOME'] || join(home, '.cache'), 'agent-follow-up');
}

/** Absolute path of the first executable file of that name on PATH, or `undefined`. */
export async function findOnPath(name: string, env: Environment): Promise<string | undefined> {
  const names = process.platform === 'win32' ? [`${name}.exe`, `${name}.cmd`, name] : [name];
  for (const directory of (env['PATH'] ?? '').split(delimiter).filter(Boolean)) {
    for (const candidate of names) {
      const path = join(directory, candidate);
      if (await isExecutable(path)) return path;
    }
  }
  return undefined;
}

/** Whether a path is a file that this user may run. */
export async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

/**
 * Environment of a child process. It never gets this project's keys; `TEMPORAL_*` is left out too unless wanted, since
 * it points the CLI at some other server.
 */
export function childEnvironment(env: Environment, options: { keepTemporal?: boolean } = {}): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(
      ([name]) => !name.startsWith('AGENT_JOBS_') && (options.keepTemporal === true || !name.startsWith('TEMPORAL_')),
    ),
  );
}
