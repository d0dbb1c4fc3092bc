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
import { repository } from './packing.js';

const directory = mkdtempSync(join(tmpdir(), 'build-test-'));
const root = join(directory, 'package');
const bundlePath = join(root, 'dist', 'workflow-bundle.js');
const COMPILED = /^compiled src in [\d.]+ s\n$/;

/** Says before and after the wait for the bundle whether it is there. */
const main = `import { existsSync } from 'node:fs';
export async function main(argv: string[], _io: unknown, bundled?: Promise<void>): Promise<number> {
  const bundle = new URL('../workflow-bundle.js', import.meta.url);
  process.stdout.write(\`\${argv.join()} \${existsSync(bundle)}\`);
  await bundled;
  process.stdout.write(\` \${existsSync(bundle)}\`);
  return 3;
}
`;
/** The smallest package that can be built: a workflow and a command. */
const sources = {
  'src/workflows/index.ts': 'export async function followUp(): Promise<string> {\n  return "done";\n}\n',
  'src/workflows/shared-modules.ts': 'export {};\n',
  // The types that `src/worker/worker-options.ts` imports.
  'src/config/index.ts': 'export type WorkerConfig = any;\n',
  'src/temporal/data-converter.ts': 'export type TemporalPlugin = any;\n',
  'src/cli/main.ts': main,
};

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

/** Runs the command. It builds what is missing or out of date. */
async function command(...args: string[]) {
  const child = spawn(process.execPath, [join(root, 'bin', 'follow-up.js'), ...args], { cwd: directory });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, stdout, stderr };
}

/** Shifts the modification time by some seconds. */
function shiftTime(path: string, seconds: number): void {
  const time = new Date(statSync(join(root, path)).mtimeMs + seconds * 1_000);
  utimesSync(join(root, path), time, time);
}

describe('the build', () => {
  beforeEach(() => {
    rmSync(root, { recursive: true, force: true });
    mkdirSync(root, { recursive: true });
    for (const name of ['package.json', 'tsconfig.json', 'bin']) {
      cpSync(join(repository, name), join(root, name), { recursive: true });
    }
    symlinkSync(join(repository, 'node_modules'), join(root, 'node_modules'));
    for (const [path, text] of Object.entries(sources)) write(path, text);
    for (const path of ['src/worker/worker-options.ts', 'src/node/package.ts']) {
      write(path, readFileSync(join(repository, path), 'utf8'));
    }
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it('is made by the command when it is missing: the command begins at once, and may wait for the bundle', async () => {
    const stderr = expect.stringMatching(COMPILED) as string;
    expect(await command('a', 'b')).toEqual({ code: 3, stdout: 'a,b false true', stderr });
    expect(await command('a')).toEqual({ code: 3, stdout: 'a true true', stderr: '' });
  });

  it('says how to install the compiler if NODE_ENV=production has left it out', async () => {
    rmSync(join(root, 'node_modules'));
    const stderr = expect.stringContaining('run "npm ci --include=dev --include=optional"') as string;
    expect(await command()).toMatchObject({ code: 1, stderr });
  });

  it('is made again after every kind of change to a source', async () => {
    await command();
    const edit = (code: number) => write('src/cli/main.ts', main.replace('return 3', `return ${code}`));
    const compiled = { stderr: expect.stringMatching(COMPILED) as string };
    edit(4);
    expect(await command()).toMatchObject({ code: 4, ...compiled });
    // A copy that is older than the build, as `mv` and `cp -p` leave it.
    edit(5);
    shiftTime('src/cli/main.ts', -3_600);
    expect(await command()).toMatchObject({ code: 5, ...compiled });
    for (const change of [
      () => write('src/contract/unused.ts', 'export {};\n'),
      () => rmSync(join(root, 'src/contract/unused.ts')),
      () => shiftTime('package.json', 5),
    ]) {
      change();
      expect(await command()).toMatchObject(compiled);
    }
    expect(existsSync(join(root, 'dist/contract/unused.js'))).toBe(false);
    expect(await command()).toMatchObject({ stderr: '' });
  });

  it('is made once by processes that start at the same time, and ignores the lock of a dead process', async () => {
    const dead = spawn(process.execPath, ['-e', '']);
    await new Promise((resolve) => dead.once('close', resolve));
    write('.cache/build.lock', String(dead.pid));
    const results = await Promise.all([command('1'), command('2'), command('3')]);
    expect(results.map(({ code, stdout }) => `${code} ${stdout[0]}`)).toEqual(['3 1', '3 2', '3 3']);
    expect(results.filter(({ stderr }) => stderr.includes('compiled src'))).toHaveLength(1);
    expect(existsSync(join(root, '.cache/build.lock'))).toBe(false);
  });

  it('keeps the old build if a source cannot be parsed, says where, and runs nothing', async () => {
    await command();
    const bundle = readFileSync(bundlePath, 'utf8');
    write('src/cli/main.ts', 'export const main = ;\n');
    const stderr = expect.stringContaining('src/cli/main.ts:1:21') as string;
    expect(await command('x')).toEqual({ code: 1, stdout: '', stderr });
    expect(readFileSync(bundlePath, 'utf8')).toBe(bundle);
  });

  it('fails if the workflows cannot be bundled, and is tried again by the next command', async () => {
    write('src/workflows/index.ts', "import './missing.js';\n");
    const stderr = expect.stringMatching(/build failed: the workflows cannot be bundled.*missing\.js/s) as string;
    for (const attempt of ['first', 'second']) expect(await command(attempt)).toMatchObject({ code: 1, stderr });
  });
});
