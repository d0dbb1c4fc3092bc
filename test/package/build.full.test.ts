import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';

const repository = join(import.meta.dirname, '..', '..');
const directory = mkdtempSync(join(tmpdir(), 'build-test-'));
const root = join(directory, 'package');
const bundlePath = join(root, 'dist', 'workflow-bundle.js');

/** The smallest package that can be built: a workflow, a contract, a command. */
const sources = {
  'src/workflows/index.ts': 'export async function followUp(): Promise<string> {\n  return "done";\n}\n',
  'src/workflows/shared-modules.ts': 'export {};\n',
  'src/contract/follow-up-input.ts': `import { z } from 'zod';
export const followUpSettings = { wait: { default: '5s', min: '0s', max: '1h', meaning: 'how long' } };
export const MAX_PROMPT_BYTES = 10;
export const followUpInputSchema = z.object({ wait: z.union([z.number(), z.string()]) });
`,
  'src/contract/index.ts': `import { z } from 'zod';
import { followUpInputSchema } from './follow-up-input.js';
export const followUpBatchInputSchema = z.union([z.object({ defaults: followUpInputSchema })]);
const answer = z.object({ a: z.string() });
export { answer as followUpResultSchema, answer as followUpProgressSchema, answer as failureDetailsSchema };
export { answer as followUpBatchResultSchema, answer as batchStatusSchema, answer as batchItemsSchema };
`,
  // The types that `src/worker/options.ts` imports.
  'src/config/index.ts': 'export type WorkerConfig = any;\n',
  'src/temporal/data-converter.ts': 'export type TemporalPlugin = any;\n',
  // With the argument "bundle", it waits for the bundle and says before and after whether it is there.
  'src/cli/main.ts': `import { existsSync } from 'node:fs';
export async function main(argv: string[], _io: unknown, bundled?: Promise<void>): Promise<number> {
  const bundle = new URL('../workflow-bundle.js', import.meta.url);
  process.stdout.write(argv.join());
  if (argv[0] === 'bundle') {
    process.stdout.write(\` \${existsSync(bundle)}\`);
    await bundled;
    process.stdout.write(\` \${existsSync(bundle)}\`);
  }
  return 3;
}
`,
};

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

const run = (...args: string[]) => runIn(directory, ...args);

async function runIn(cwd: string, ...args: string[]): Promise<Ended> {
  const child = spawn(process.execPath, args, { cwd });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, stdout, stderr };
}

const build = (...args: string[]) => run(join(root, 'bin', 'build.js'), ...args);
const command = (...args: string[]) => run(join(root, 'bin', 'follow-up.js'), ...args);

/** Shifts the modification time by some seconds. */
function shiftTime(path: string, seconds: number): void {
  const time = new Date(statSync(join(root, path)).mtimeMs + seconds * 1_000);
  utimesSync(join(root, path), time, time);
}

const declarations = () =>
  readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.d.ts'));

describe('the build', () => {
  beforeEach(() => {
    rmSync(root, { recursive: true, force: true });
    mkdirSync(root, { recursive: true });
    for (const name of ['package.json', 'tsconfig.json', 'bin']) {
      cpSync(join(repository, name), join(root, name), { recursive: true });
    }
    symlinkSync(join(repository, 'node_modules'), join(root, 'node_modules'));
    for (const [path, text] of Object.entries(sources)) write(path, text);
    for (const path of ['src/worker/options.ts', 'src/package.ts']) {
      write(path, readFileSync(join(repository, path), 'utf8'));
    }
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it('is made by the command when it is missing', async () => {
    const first = await command('a', 'b');
    expect(first).toEqual({ code: 3, stdout: 'a,b', stderr: expect.stringMatching(/^compiled src in [\d.]+ s\n$/) });
    expect(existsSync(bundlePath)).toBe(true);
    expect(await command()).toEqual({ code: 3, stdout: '', stderr: '' });
    // Nothing needs these to run.
    expect(declarations()).toEqual([]);
    expect(existsSync(join(root, 'schemas'))).toBe(false);
  });

  it('says how to install the compiler, which NODE_ENV=production leaves out', async () => {
    rmSync(join(root, 'node_modules'));
    const { code, stderr } = await command();
    expect(code).toBe(1);
    expect(stderr).toContain('run "npm ci --include=dev"');
  });

  it('lets the command begin before the bundle is there, and lets it wait for the bundle', async () => {
    expect((await command('bundle')).stdout).toBe('bundle false true');
    expect((await command('bundle')).stdout).toBe('bundle true true');
  });

  it('is made again after every kind of change to a source', async () => {
    await command();
    const compiled = /^compiled src/;

    write('src/cli/main.ts', sources['src/cli/main.ts'].replace('return 3', 'return 4'));
    expect(await command()).toMatchObject({ code: 4, stderr: expect.stringMatching(compiled) });

    // A copy that is older than the build, as `mv` and `cp -p` leave it.
    write('src/cli/main.ts', sources['src/cli/main.ts'].replace('return 3', 'return 5'));
    shiftTime('src/cli/main.ts', -3_600);
    expect(await command()).toMatchObject({ code: 5, stderr: expect.stringMatching(compiled) });

    write('src/contract/unused.ts', 'export {};\n');
    expect((await command()).stderr).toMatch(compiled);
    expect(existsSync(join(root, 'dist/contract/unused.js'))).toBe(true);
    rmSync(join(root, 'src/contract/unused.ts'));
    expect((await command()).stderr).toMatch(compiled);
    expect(existsSync(join(root, 'dist/contract/unused.js'))).toBe(false);

    shiftTime('package.json', 5);
    expect((await command()).stderr).toMatch(compiled);
    expect((await command()).stderr).toBe('');
  });

  it('is made once by processes that start at the same time, and ignores the lock of a dead process', async () => {
    const dead = spawn(process.execPath, ['-e', '']);
    await new Promise((resolve) => dead.once('close', resolve));
    write('.cache/build.lock', String(dead.pid));
    const results = await Promise.all([command('1'), command('2'), command('3')]);
    expect(results.map(({ code }) => code)).toEqual([3, 3, 3]);
    expect(results.map(({ stdout }) => stdout)).toEqual(['1', '2', '3']);
    expect(results.filter(({ stderr }) => stderr.includes('compiled src'))).toHaveLength(1);
    expect(existsSync(join(root, '.cache/build.lock'))).toBe(false);
  });

  it('keeps the old one if a source cannot be parsed, says where, and runs nothing', async () => {
    await build('--if-stale');
    const bundle = readFileSync(bundlePath, 'utf8');
    write('src/cli/main.ts', 'export const main = ;\n');
    write('src/contract/index.ts', 'export const limit = ;\n');
    for (const run of [() => build(), () => build('--if-stale'), () => command('x')]) {
      const failed = await run();
      expect(failed).toMatchObject({ code: 1, stdout: '' });
      expect(failed.stderr).toContain('src/cli/main.ts:1:21');
      expect(failed.stderr).toContain('src/contract/index.ts:1:1');
    }
    expect(readFileSync(bundlePath, 'utf8')).toBe(bundle);
    expect(existsSync(join(root, 'dist-next'))).toBe(false);
  });

  it('fails if the workflows cannot be bundled, and is tried again by the next command', async () => {
    write('src/workflows/index.ts', "import './missing.js';\n");
    for (const attempt of ['first', 'second']) {
      const failed = await command('bundle', attempt);
      expect(failed).toMatchObject({ code: 1, stdout: `bundle,${attempt} false` });
      expect(failed.stderr).toMatch(/build failed: the workflows cannot be bundled.*missing\.js/s);
    }
    // A command that runs no workflows still works.
    expect((await command('other')).code).toBe(3);
  });

  it('checks types and writes declarations only when it is run directly, not for a command', async () => {
    expect((await build()).code).toBe(0);
    expect(declarations()).toContain(join('contract', 'follow-up-input.d.ts'));
    write('src/cli/main.ts', `${sources['src/cli/main.ts']}export const wrong: number = "text";\n`);
    expect((await command()).code).toBe(3);
    const failed = await build();
    expect(failed.code).toBe(1);
    expect(failed.stderr).toMatch(/src\/cli\/main\.ts\(\d+,14\): error TS2322: Type 'string' is not assignable/);
    expect(declarations()).toEqual([]);
  });

  it('writes the JSON Schemas, or fails if they are out of date with --check-schemas', async () => {
    const outdated = await build('--check-schemas');
    expect(outdated.code).toBe(1);
    expect(outdated.stderr).toContain('schemas/follow-up-input.schema.json is out of date');
    expect((await build()).code).toBe(0);
    expect((await build('--check-schemas')).code).toBe(0);
    const schema: unknown = JSON.parse(readFileSync(join(root, 'schemas/follow-up-input.schema.json'), 'utf8'));
    expect(schema).toMatchObject({
      properties: { wait: { allOf: [{ $ref: '#/$defs/duration' }, { $ref: '#/$defs/at-least-0s' }, {}] } },
      $defs: { duration: { type: ['integer', 'string'] }, 'at-least-0s': { minimum: 0 } },
    });
  });

  it('makes the same bundle from the same sources, wherever it is started, and puts no directory in it', async () => {
    await run(join(root, 'bin', 'build.js'), '--if-stale');
    const first = readFileSync(bundlePath, 'utf8');
    const map = Buffer.from(first.slice(first.lastIndexOf('base64,') + 'base64,'.length), 'base64').toString();
    expect(map).toContain('./src/workflows/index.ts');
    expect(first + map).not.toContain(directory);
    shiftTime('package.json', 5);
    await runIn(root, 'bin/build.js', '--if-stale');
    expect(readFileSync(bundlePath, 'utf8')).toBe(first);
  });

  it('is made again by npm run dev after every change, which restarts the stack', async () => {
    cpSync(join(repository, 'tools', 'scripts', 'dev.js'), join(root, 'tools', 'scripts', 'dev.js'));
    const stack = (version: number) => `export async function main(argv: string[]): Promise<number> {
  process.stdout.write('up ${version} ' + argv.join(' ') + '\\n');
  const alive = setInterval(() => undefined, 60_000);
  await new Promise((resolve) => process.once('SIGTERM', resolve).once('SIGINT', resolve));
  clearInterval(alive);
  process.stdout.write('down ${version}\\n');
  return 0;
}
`;
    write('src/cli/main.ts', stack(1));
    const { scripts } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const [, ...args] = scripts['dev']?.split(' ') ?? [];
    const child = spawn(process.execPath, [...args, '--port', '7300'], { cwd: root, detached: true });
    const group = -(child.pid ?? 0);
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    const ended = new Promise((resolve) => child.once('close', resolve));
    try {
      await expect.poll(() => stdout).toContain('up 1 dev --port 7300\n');
      write('src/cli/main.ts', 'export const main = ;\n');
      await expect.poll(() => stderr).toContain('build failed');
      write('src/cli/main.ts', stack(2));
      await expect.poll(() => stdout).toContain('up 2 dev --port 7300\n');
      expect(stdout).toContain('down 1\n');
      child.kill('SIGINT');
      await ended;
      expect(stdout).toContain('\ndown 2\n');
    } finally {
      // If it did not end properly, its children are in its process group.
      if (child.exitCode === null && group < 0) process.kill(group, 'SIGKILL');
    }
  });

  it('is not checked if there are no sources', async () => {
    await build('--if-stale');
    for (const name of ['src', 'bin/build.js', 'bin/checkout.js', 'dist/build-stamp.txt']) {
      rmSync(join(root, name), { recursive: true });
    }
    expect(await command('x')).toEqual({ code: 3, stdout: 'x', stderr: '' });
  });
});
