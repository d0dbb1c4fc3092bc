import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import type { Environment } from '../../src/config/index.js';
import { findFreePort } from '../../src/node/tcp-ports.js';

/** Reports progress on stderr. */
export const say = (message: string): void => void process.stderr.write(`${message}\n`);

/** Absolute path of the first executable file of that name on PATH, or `undefined`. */
export async function findOnPath(name: string, env: Environment): Promise<string | undefined> {
  for (const directory of (env['PATH'] ?? '').split(delimiter).filter(Boolean)) {
    const path = join(directory, name);
    if (await isExecutable(path)) return path;
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

/** Free ports of 127.0.0.1, all different. Another process may still take one before it is used. */
export async function findFreePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) ports.add(await findFreePort());
  return [...ports];
}
