import { execFile } from 'node:child_process';
import { cpSync, existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';

export const run = promisify(execFile);
export const repository = join(import.meta.dirname, '..', '..');

const packed = z.tuple([z.object({ filename: z.string(), files: z.array(z.object({ path: z.string() })) })]);

/** A packed package. */
export interface Tarball {
  path: string;
  /** Paths in it. */
  files: string[];
}

/** Copies what packing needs, for it builds everything, and other tests use what is built. */
export async function copyRepository(copy: string): Promise<void> {
  const { stdout: tracked } = await run('git', ['ls-files', '-z'], { cwd: repository, maxBuffer: 16 * 1_048_576 });
  for (const name of tracked
    .split('\0')
    .filter((each) => /^(src|bin|schemas|docs|packages|examples|deploy)\/|^[^/]+$/.test(each))) {
    if (existsSync(join(repository, name))) cpSync(join(repository, name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(repository, 'node_modules'), join(copy, 'node_modules'));
}

/** Packs the package in `folder` as a release does, into `directory`. */
export async function pack(folder: string, directory: string): Promise<Tarball> {
  const { stdout } = await run('npm', ['pack', '--silent', '--json', '--pack-destination', directory], { cwd: folder });
  const [{ filename, files }] = packed.parse(JSON.parse(stdout));
  return { path: join(directory, filename), files: files.map(({ path }) => path) };
}

/** Installs packages into an otherwise empty project, as a user does. */
export async function install(directory: string, ...packages: string[]): Promise<void> {
  const flags = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'];
  await run('npm', ['install', ...flags, ...packages], { cwd: directory });
}

/**
 * Installs the tools that judge packages, at pinned versions. They are no dependencies of the repository: whoever only
 * runs it need not load them.
 *
 * @returns the path of a tool by its name
 */
export async function installTools(directory: string): Promise<(name: string) => string> {
  const flags = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'];
  for (const name of ['package.json', 'package-lock.json']) {
    cpSync(join(import.meta.dirname, 'tools', name), join(directory, name));
  }
  await run('npm', ['ci', ...flags], { cwd: directory });
  return (name) => join(directory, 'node_modules', '.bin', name);
}
