#!/usr/bin/env node
/**
 * Builds `dist`: the code, the bundled command line, the workflow bundle, and a stamp of the sources. Without options
 * it also checks the types, adds the type declarations, and writes the JSON Schemas in `schemas`. Options:
 *
 *   --if-stale       build only the code and the bundle, and only if the sources have changed
 *   --check-schemas  fail if `schemas` is out of date, instead of writing it
 *
 * It says what it did on stderr. Two builds started at once build once.
 */
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative, sep } from 'node:path';
import { performance } from 'node:perf_hooks';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { isStale, sourceState, stampPath } from './checkout.js';
import { jsonSchemas } from './schemas.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const source = join(root, 'src');
const dist = join(root, 'dist');
const next = join(root, 'dist-next');
const schemasDirectory = join(root, 'schemas');

/** A build takes seconds. An older lock belongs to a machine that went down, or to a process id that was reused. */
const LOCK_LIMIT_MS = 10 * 60_000;
/** How often a process that waits for another's build checks the lock. */
const LOCK_POLL_MS = 100;

/**
 * Runs `work` in one process at a time.
 *
 * @param {string} lock path of the lock file; it holds the owner's process id
 * @param {() => Promise<void>} work
 */
async function withLock(lock, work) {
  const mine = `${lock}.${process.pid}`;
  fs.mkdirSync(dirname(lock), { recursive: true });
  fs.writeFileSync(mine, String(process.pid));
  try {
    while (!tryLink(mine, lock)) {
      if (isAbandoned(lock)) takeAway(lock, mine);
      else await sleep(LOCK_POLL_MS);
    }
    try {
      await work();
    } finally {
      fs.unlinkSync(lock);
    }
  } finally {
    fs.rmSync(mine, { force: true });
  }
}

/** A hard link appears with its content or not at all, and fails if the lock is held. */
function tryLink(mine, lock) {
  try {
    fs.linkSync(mine, lock);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

function isAbandoned(lock) {
  try {
    const ownerPid = Number(fs.readFileSync(lock, 'utf8'));
    if (Date.now() - fs.statSync(lock).mtimeMs > LOCK_LIMIT_MS) return true;
    process.kill(ownerPid, 0);
    return false;
  } catch (error) {
    // ENOENT: the owner has just released it. EPERM: the owner lives, and belongs to another user.
    return error.code === 'ESRCH';
  }
}

/** Removes an abandoned lock. If several processes try, only one finds it. */
function takeAway(lock, mine) {
  const removed = `${mine}.removed`;
  try {
    fs.renameSync(lock, removed);
    // Another process may have removed the abandoned lock and taken a new one in the meantime: give that one back.
    if (!isAbandoned(removed)) tryLink(removed, lock);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  } finally {
    fs.rmSync(removed, { force: true });
  }
}

/**
 * Makes the code in `dist`: the command line, bundled, and everything else of `src`, compiled file by file. Types are
 * dropped, not checked.
 *
 * @throws Error that names what cannot be parsed or found; `dist` then stays as it was
 */
async function compile() {
  fs.rmSync(next, { recursive: true, force: true });
  const results = await Promise.allSettled([compileFiles(), bundleCommandLine()]);
  const failures = results.filter(({ status }) => status === 'rejected').map(({ reason }) => reason.message);
  if (failures.length > 0) {
    fs.rmSync(next, { recursive: true, force: true });
    throw new Error(stripVTControlCharacters(`the compiler found errors:\n${failures.join('\n')}`));
  }
  replaceDirectory(next, dist);
}

/** Compiles the modules that are imported from `dist`. */
async function compileFiles() {
  const { default: swc } = await import('@swc/core').catch(failWithoutCompiler);
  const names = fs.readdirSync(source, { recursive: true, encoding: 'utf8' });
  const compileFile = async (name) => {
    const outputName = name.replace(/\.ts$/, '.js');
    const { code, map } = await swc.transformFile(join(source, name), {
      configFile: false,
      swcrc: false,
      module: { type: 'es6' },
      jsc: { target: 'es2022', parser: { syntax: 'typescript' }, transform: { verbatimModuleSyntax: true } },
      sourceMaps: true,
      sourceFileName: relative(dirname(join(dist, name)), join(source, name)),
      inlineSourcesContent: false,
    });
    const output = join(next, outputName);
    fs.mkdirSync(dirname(output), { recursive: true });
    fs.writeFileSync(output, `${code}//# sourceMappingURL=${basename(outputName)}.map\n`);
    fs.writeFileSync(`${output}.map`, map);
  };
  const isCommandLine = (name) => name.startsWith(`cli${sep}`);
  const compiled = names.filter((name) => name.endsWith('.ts') && !isCommandLine(name)).map(compileFile);
  const failures = (await Promise.allSettled(compiled)).filter(({ status }) => status === 'rejected');
  if (failures.length > 0) throw new Error(failures.map(({ reason }) => reason.message).join('\n'));
}

/**
 * Bundles the command line: one file that defines the commands, and files that they load when they run. These are
 * CommonJS, because most packages are: if an ES module imports a CommonJS package, Node must search it for the names
 * that it exports. See docs/explanation/benchmarks.md for what that saves.
 */
async function bundleCommandLine() {
  const { rolldown } = await import('rolldown').catch(failWithoutCompiler);
  const bundle = await rolldown({
    cwd: root,
    input: join(source, 'cli', 'main.ts'),
    platform: 'node',
    tsconfig: false,
    resolve: { extensionAlias: { '.js': ['.ts', '.js'] } },
    // zod has 95 files, most of them translations that are not used here. Other packages are loaded as they are
    // installed.
    external: (id) => !/^(\.|\/|zod$)/.test(id),
  });
  const license = fs.readFileSync(join(root, 'node_modules', 'zod', 'LICENSE'), 'utf8');
  await bundle.write({
    dir: join(next, 'cli'),
    format: 'cjs',
    banner: ({ moduleIds }) =>
      moduleIds.some((id) => /[\\/]zod[\\/]/.test(id)) ? `/* Includes zod.\n${license}*/` : '',
    entryFileNames: '[name].cjs',
    chunkFileNames: '[name].cjs',
    sourcemap: true,
  });
}

function failWithoutCompiler(error) {
  throw new Error(`the compiler cannot be loaded: run "npm ci --include=dev --include=optional" (${error.message})`, {
    cause: error,
  });
}

/** Bundles the workflows for Temporal's sandbox. */
async function bundleWorkflows() {
  const { bundleWorkflowCode } = await import('@temporalio/worker');
  const { workflowBundleOptions } = await importCompiled('worker/worker-options.js');
  const problems = [];
  const keep = (message) => problems.push(message);
  const ignore = () => undefined;
  const logger = { log: ignore, trace: ignore, debug: ignore, info: ignore, warn: keep, error: keep };
  try {
    const options = workflowBundleOptions(join(dist, 'workflows', 'index.js'));
    const { code } = await bundleWorkflowCode({ ...options, logger });
    fs.writeFileSync(join(dist, 'workflow-bundle.js'), code);
  } catch (error) {
    throw new Error([`the workflows cannot be bundled: ${error.message}`, ...problems].join('\n'), { cause: error });
  }
}

/** Checks the types of `src` and writes the declarations beside the code. */
async function declareTypes() {
  const compiler = createRequire(import.meta.url).resolve('typescript/lib/tsc.js');
  const child = spawn(process.execPath, [compiler, '-p', 'bin/tsconfig.json'], { cwd: root });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  const code = await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
  if (code !== 0) throw new Error(`the TypeScript compiler found errors:\n${output.trim()}`);
}

/** @param {string} name path of a module in `dist` */
function importCompiled(name) {
  return import(pathToFileURL(join(dist, name)).href);
}

/** Writes the JSON Schemas, or fails if one is out of date. */
async function updateSchemas({ check }) {
  const { z } = await import('zod');
  const contract = await importCompiled('contract/index.js');
  for (const [name, text] of jsonSchemas(z, contract)) {
    const path = join(schemasDirectory, name);
    if (fs.existsSync(path) && fs.readFileSync(path, 'utf8') === text) continue;
    if (check) throw new Error(`schemas/${name} is out of date: run "npm run build" and commit it`);
    fs.mkdirSync(schemasDirectory, { recursive: true });
    fs.writeFileSync(path, text);
  }
}

/** Puts the new directory in the place of the old one. */
function replaceDirectory(next, current) {
  const old = `${current}-old`;
  fs.rmSync(old, { recursive: true, force: true });
  if (fs.existsSync(current)) fs.renameSync(current, old);
  fs.renameSync(next, current);
  fs.rmSync(old, { recursive: true, force: true });
}

/** @param {string} text what has been done since `startedMs` */
function say(text, startedMs) {
  process.stderr.write(`${text} in ${((performance.now() - startedMs) / 1_000).toFixed(1)} s\n`);
}

async function main(args) {
  if (!fs.existsSync(source)) throw new Error(`there is nothing to build: ${source} does not exist`);
  const ifStale = args.includes('--if-stale');
  if (ifStale && !isStale(root)) return;
  await withLock(join(root, '.cache', 'build.lock'), async () => {
    if (ifStale && !isStale(root)) return;
    const startedMs = performance.now();
    if (process.stderr.isTTY) process.stderr.write('compiling src, which takes some seconds\n');
    // Read before the build: any later edit makes it stale.
    const state = sourceState(root);
    await compile();
    say('compiled src', startedMs);
    // The command that started this build goes on, and waits for the bundle only if it needs it. After Ctrl-C it no
    // longer listens, which is no error.
    process.send?.('compiled', () => undefined);
    await Promise.all([
      bundleWorkflows().then(() => fs.writeFileSync(stampPath(root), state)),
      ifStale ? undefined : declareTypes(),
    ]);
    if (!ifStale) await updateSchemas({ check: args.includes('--check-schemas') });
    // A command that started this build already shows its own progress.
    if (!process.send) say('built dist', startedMs);
  });
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`build failed: ${error.message}\n`);
  process.exitCode = 1;
}
