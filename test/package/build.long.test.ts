import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
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
const stampPath = join(root, 'dist', 'build-stamp.json');

/** A package as small as can be built: a workflow, a contract, a command. */
const sources = {
  'src/workflows/index.ts': 'export async function followUp(): Promise<string> {\n  return "done";\n}\n',
  'src/workflows/shared-modules.ts': 'export {};\n',
  'src/contract/index.ts':
    "import { z } from 'zod';\nexport const followUpInputSchema = z.object({ wait: z.union([z.number(), z.string()]) });\nexport const followUpResultSchema = z.object({ a: z.string() });\n",
  'src/cli/main.ts':
    'export async function main(argv: string[]): Promise<number> {\n  process.stdout.write(argv.join());\n  return 3;\n}\n',
};

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

async function run(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, args, { cwd: directory });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, stdout, stderr };
}

const build = (...args: string[]) => run(join(root, 'bin', 'build.js'), ...args);
const command = (...args: string[]) => run(join(root, 'bin', 'follow-up.js'), ...args);

/** As an editor would, a little later than the last build. */
function touch(path: string): void {
  const later = new Date(statSync(join(root, path)).mtimeMs + 5_000);
  utimesSync(join(root, path), later, later);
}

describe('the build', () => {
  beforeEach(() => {
    rmSync(root, { recursive: true, force: true });
    mkdirSync(root, { recursive: true });
    for (const name of ['package.json', 'tsconfig.json', 'tsconfig.build.json', 'bin']) {
      cpSync(join(repository, name), join(root, name), { recursive: true });
    }
    symlinkSync(join(repository, 'node_modules'), join(root, 'node_modules'));
    for (const [path, text] of Object.entries(sources)) write(path, text);
    const bundling = 'src/worker/bundle-options.ts';
    write(bundling, readFileSync(join(repository, bundling), 'utf8'));
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it('is made by the command when it is missing, again when a source changed, and not otherwise', async () => {
    const first = await command('a', 'b');
    expect(first).toEqual({ code: 3, stdout: 'a,b', stderr: expect.stringMatching(/^built dist in [\d.]+ s\n$/) });
    expect(existsSync(join(root, 'dist', 'workflow-bundle.js'))).toBe(true);
    expect(existsSync(join(root, 'dist', 'contract', 'index.d.ts'))).toBe(true);
    expect(existsSync(join(root, 'schemas'))).toBe(false);

    expect(await command()).toEqual({ code: 3, stdout: '', stderr: '' });

    write('src/cli/main.ts', sources['src/cli/main.ts'].replace('return 3', 'return 4'));
    touch('src/cli/main.ts');
    expect((await command()).code).toBe(4);

    write('src/cli/unused.ts', 'export {};\n');
    touch('src/cli');
    expect((await command()).stderr).toContain('built dist');
    rmSync(join(root, 'src/cli/unused.ts'));
    touch('src/cli');
    expect((await command()).stderr).toContain('built dist');
    expect(existsSync(join(root, 'dist/cli/unused.js'))).toBe(false);
    expect((await command()).stderr).toBe('');
  });

  it('is made once by processes that start at the same time, and a lock of a dead process does not matter', async () => {
    const dead = spawn(process.execPath, ['-e', '']);
    await new Promise((resolve) => dead.once('close', resolve));
    write('.cache/build.lock', String(dead.pid));
    const results = await Promise.all([command('1'), command('2'), command('3')]);
    expect(results.map(({ code }) => code)).toEqual([3, 3, 3]);
    expect(results.map(({ stdout }) => stdout)).toEqual(['1', '2', '3']);
    expect(results.filter(({ stderr }) => stderr.includes('built dist'))).toHaveLength(1);
    expect(existsSync(join(root, '.cache/build.lock'))).toBe(false);
  });

  it('leaves the old one in place where the compiler finds errors, and says them', async () => {
    expect((await build()).code).toBe(0);
    const stamp = readFileSync(stampPath, 'utf8');
    write('src/cli/main.ts', 'export const main: number = "text";\n');
    touch('src/cli/main.ts');
    const failed = await build();
    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain("src/cli/main.ts(1,14): error TS2322: Type 'string' is not assignable");
    expect(readFileSync(stampPath, 'utf8')).toBe(stamp);
    expect(existsSync(join(root, 'dist-next'))).toBe(false);
    expect((await command()).code).toBe(1);
  });

  it('writes the JSON Schemas, and can fail where they are out of date instead', async () => {
    const outdated = await build('--check-schemas');
    expect(outdated.code).toBe(1);
    expect(outdated.stderr).toContain('follow-up-input.schema.json, follow-up-result.schema.json');
    expect((await build()).code).toBe(0);
    expect((await build('--check-schemas')).code).toBe(0);
    const schema: unknown = JSON.parse(readFileSync(join(root, 'schemas/follow-up-input.schema.json'), 'utf8'));
    expect(schema).toMatchObject({ properties: { wait: { type: ['integer', 'string'], minimum: 0 } } });
  });

  it('gives the same bundle for the same sources', async () => {
    const bundle = join(root, 'dist', 'workflow-bundle.js');
    await build();
    const first = readFileSync(bundle, 'utf8');
    expect(first).not.toContain(directory);
    await build();
    expect(readFileSync(bundle, 'utf8')).toBe(first);
  });

  it('is not needed where there are no sources', async () => {
    await build();
    rmSync(join(root, 'src'), { recursive: true });
    rmSync(stampPath);
    expect(await command('x')).toEqual({ code: 3, stdout: 'x', stderr: '' });
    expect((await build()).stderr).toContain('there is nothing to build');
  });
});
