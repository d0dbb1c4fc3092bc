#!/usr/bin/env node
/**
 * Builds `dist`: compiled code and type declarations, the prebuilt workflow bundle, and a stamp; and writes the JSON
 * Schemas in `schemas`. Run as a command it takes
 *
 *   --if-stale       build only when `dist` is missing or older than its sources, and leave `schemas` alone
 *   --check-schemas  fail when `schemas` is out of date instead of writing it
 *
 * It prints one line on stderr. Two builds started at once build once.
 */
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';

const packageRoot = join(dirname(fileURLToPath(import.meta.url)), '..');

/** What `dist` is made from, beside `src`. */
const SOURCE_FILES = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json', 'bin/build.js'];
/** A build takes well under a minute; a lock that old belongs to a machine that went down, or to a reused process id. */
const LOCK_LIMIT_MS = 10 * 60_000;
/** How often a process that waits for another's build looks. */
const LOCK_POLL_MS = 100;

/**
 * Paths of a build.
 *
 * @param {string} root the package's directory
 */
function pathsOf(root) {
  return {
    dist: join(root, 'dist'),
    // The name is always the same: it ends up in the bundle's source map, and the same sources must give the same
    // bundle. The lock sees to it that only one process uses it.
    next: join(root, 'dist-next'),
    lock: join(root, '.cache', 'build.lock'),
    stamp: join(root, 'dist', 'build-stamp.json'),
    schemas: join(root, 'schemas'),
    source: join(root, 'src'),
  };
}

/**
 * Newest modification time of everything that `dist` is made from, in epoch milliseconds. Directories count as well, so
 * that a file taken away is noticed.
 *
 * @param {string} root
 * @returns {number}
 */
function newestSourceMs(root) {
  const source = pathsOf(root).source;
  const entries = fs.readdirSync(source, { recursive: true, encoding: 'utf8' }).map((name) => join(source, name));
  const others = SOURCE_FILES.map((name) => join(root, name)).filter((path) => fs.existsSync(path));
  return Math.max(...[source, ...entries, ...others].map((path) => fs.statSync(path).mtimeMs));
}

/**
 * Whether `dist` is missing or older than its sources. Never true in an installed package, which has no sources.
 *
 * @param {string} [root]
 * @returns {boolean}
 */
export function isStale(root = packageRoot) {
  const { source, stamp } = pathsOf(root);
  if (!fs.existsSync(source)) return false;
  try {
    // The newest time as it was when the build began is compared, not the clock: a source dated in the future would
    // be built again and again, and one that was edited while it was built not at all.
    const { newestSourceMs: builtFromMs } = JSON.parse(fs.readFileSync(stamp, 'utf8'));
    return !(newestSourceMs(root) <= builtFromMs);
  } catch {
    return true;
  }
}

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

/** A hard link appears with its content or not at all, and fails where the lock is held. */
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
    // ENOENT: the owner has just let go of it. EPERM: it lives, as somebody else's process.
    return error.code === 'ESRCH';
  }
}

/** Removes an abandoned lock; of several processes that try, only one finds it. */
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
 * Runs the TypeScript compiler.
 *
 * @param {string} root
 * @param {string} outDir
 */
async function compile(root, outDir) {
  let compiler;
  try {
    compiler = createRequire(join(root, 'package.json')).resolve('typescript/lib/tsc.js');
  } catch {
    throw new Error('dist must be built, and TypeScript is not installed: run "npm ci" without --omit=dev');
  }
  const child = spawn(
    process.execPath,
    [compiler, '-p', 'tsconfig.build.json', '--outDir', outDir, '--noEmitOnError'],
    {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  const code = await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
  if (code !== 0) throw new Error(`the TypeScript compiler found errors:\n${output.trim()}`);
}

/**
 * Bundles the workflows as Temporal's sandbox takes them.
 *
 * @param {string} directory where the compiled code is
 */
async function bundleWorkflows(directory) {
  const { bundleWorkflowCode } = await import('@temporalio/worker');
  const { workflowBundleOptions } = await import(pathToFileURL(join(directory, 'worker', 'bundle-options.js')).href);
  const problems = [];
  const keep = (_level, message) => problems.push(message);
  const ignore = () => undefined;
  const logger = { log: ignore, trace: ignore, debug: ignore, info: ignore, warn: keep, error: keep };
  try {
    const options = workflowBundleOptions(join(directory, 'workflows', 'index.js'));
    const { code } = await bundleWorkflowCode({ ...options, logger });
    fs.writeFileSync(join(directory, 'workflow-bundle.js'), code);
  } catch (error) {
    throw new Error([`the workflows cannot be bundled: ${error.message}`, ...problems].join('\n'), { cause: error });
  }
}

/**
 * JSON Schemas of what callers write and read, by file name.
 *
 * @param {string} directory where the compiled code is
 * @returns {Promise<Map<string, string>>}
 */
async function jsonSchemas(directory) {
  const { z } = await import('zod');
  const contract = await import(pathToFileURL(join(directory, 'contract', 'index.js')).href);
  const described = [
    ['follow-up-input', contract.followUpInputSchema, 'Input of the followUp workflow'],
    ['follow-up-result', contract.followUpResultSchema, 'Result of the followUp workflow'],
    ['follow-up-batch-input', contract.followUpBatchInputSchema, 'Input of the followUpBatch workflow'],
    ['follow-up-batch-result', contract.followUpBatchResultSchema, 'Result of the followUpBatch workflow'],
  ];
  return new Map(
    described
      .filter(([, schema]) => schema !== undefined)
      .map(([name, schema, title]) => {
        const made = typeof schema === 'function' ? schema() : schema;
        const { $schema, ...rest } = z.toJSONSchema(made, { io: 'input', override: describeDuration });
        return [`${name}.schema.json`, `${JSON.stringify({ $schema, title, ...rest }, null, 2)}\n`];
      }),
  );
}

/** A duration is the only thing that may be a number or a text; its rule is a transform, which JSON Schema cannot see. */
function describeDuration({ jsonSchema }) {
  if (jsonSchema.anyOf?.map(({ type }) => type).join() !== 'number,string') return;
  delete jsonSchema.anyOf;
  Object.assign(jsonSchema, {
    description: 'Milliseconds, or text such as "90s"',
    type: ['integer', 'string'],
    minimum: 0,
    pattern: '^\\d+(\\.\\d+)?(ms|s|m|h|d)$',
  });
}

/** Names of the files in `directory` whose text differs from `schemas`. */
function outdated(directory, schemas) {
  return [...schemas].flatMap(([name, text]) => {
    const path = join(directory, name);
    return fs.existsSync(path) && fs.readFileSync(path, 'utf8') === text ? [] : [name];
  });
}

/** Puts the new directory in the old one's place. */
function replaceDirectory(next, current) {
  const old = `${current}-old`;
  fs.rmSync(old, { recursive: true, force: true });
  if (fs.existsSync(current)) fs.renameSync(current, old);
  fs.renameSync(next, current);
  fs.rmSync(old, { recursive: true, force: true });
}

/**
 * Builds `dist`.
 *
 * @param {object} [options]
 * @param {string} [options.root] the package's directory
 * @param {boolean} [options.ifStale] only when it is missing or older than its sources
 * @param {'write' | 'check' | 'leave'} [options.schemas] what to do with the JSON Schemas. Default: `write`
 * @param {(line: string) => void} [options.report] takes the one line that says what was done
 * @returns {Promise<boolean>} whether something was built
 */
export async function build({ root = packageRoot, ifStale = false, schemas = 'write', report = () => undefined } = {}) {
  if (ifStale && !isStale(root)) return false;
  const paths = pathsOf(root);
  if (!fs.existsSync(paths.source)) throw new Error(`there is nothing to build: ${paths.source} does not exist`);
  let built = false;
  await withLock(paths.lock, async () => {
    if (ifStale && !isStale(root)) return;
    const startedMs = performance.now();
    fs.rmSync(paths.next, { recursive: true, force: true });
    try {
      const stamp = { newestSourceMs: newestSourceMs(root) };
      await compile(root, paths.next);
      await bundleWorkflows(paths.next);
      const texts = await jsonSchemas(paths.next);
      fs.writeFileSync(join(paths.next, 'build-stamp.json'), `${JSON.stringify(stamp)}\n`);
      replaceDirectory(paths.next, paths.dist);
      built = true;
      const names = schemas === 'leave' ? [] : outdated(paths.schemas, texts);
      if (schemas === 'check' && names.length > 0) {
        throw new Error(`out of date in schemas/: ${names.join(', ')}. Run "npm run build" and commit them`);
      }
      if (names.length > 0) fs.mkdirSync(paths.schemas, { recursive: true });
      for (const name of names) fs.writeFileSync(join(paths.schemas, name), texts.get(name));
    } finally {
      fs.rmSync(paths.next, { recursive: true, force: true });
    }
    report(`built dist in ${((performance.now() - startedMs) / 1_000).toFixed(1)} s`);
  });
  return built;
}

if (process.argv[1] !== undefined && fileURLToPath(import.meta.url) === fs.realpathSync(process.argv[1])) {
  const ifStale = process.argv.includes('--if-stale');
  const schemas = process.argv.includes('--check-schemas') ? 'check' : ifStale ? 'leave' : 'write';
  try {
    await build({ ifStale, schemas, report: (line) => process.stderr.write(`${line}\n`) });
  } catch (error) {
    process.stderr.write(`build failed: ${error.message}\n`);
    process.exitCode = 1;
  }
}
