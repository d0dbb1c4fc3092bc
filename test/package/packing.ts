import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';

export const run = promisify(execFile);
export const repository = join(import.meta.dirname, '..', '..');

const packed = z.tuple([z.object({ filename: z.string(), files: z.array(z.object({ path: z.string() })) })]);

/** A packed package. */
export interface Tarball {
  path: string;
  /** The paths of its files. */
  files: string[];
}

/** Copies what packing needs. Packing builds everything, and other tests use the build in the repository. */
export async function copyRepository(copy: string): Promise<void> {
  const { stdout: tracked } = await run('git', ['ls-files', '-z'], { cwd: repository, maxBuffer: 16 * 1_048_576 });
  for (const name of tracked
    .split('\0')
    .filter((each) => /^(src|bin|schemas|docs|packages|examples|deploy|\.github)\/|^[^/]+$/.test(each))) {
    if (existsSync(join(repository, name))) cpSync(join(repository, name), join(copy, name), { recursive: true });
  }
  symlinkSync(join(repository, 'node_modules'), join(copy, 'node_modules'));
}

/** Packs the package in `folder` into `directory`, as a release does. */
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

/** Installs a version of Node from npm, and returns the path of its program. */
export async function installNode(directory: string, version: string): Promise<string> {
  mkdirSync(directory);
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ private: true }));
  // A script of the package installs the program for this platform.
  const flags = ['--prefer-offline', '--no-audit', '--no-fund'];
  await run('npm', ['install', ...flags, `node@${version}`], { cwd: directory });
  return join(directory, 'node_modules', 'node', 'bin', 'node');
}

/**
 * Installs the tools that check packages, at pinned versions. They are not dependencies of the repository, because most
 * users don't need them.
 *
 * @returns a function from the name of a tool to its path
 */
export async function installTools(directory: string): Promise<(name: string) => string> {
  const flags = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'];
  for (const name of ['package.json', 'package-lock.json']) {
    cpSync(join(import.meta.dirname, 'tools', name), join(directory, name));
  }
  await run('npm', ['ci', ...flags], { cwd: directory });
  return (name) => join(directory, 'node_modules', '.bin', name);
}
