import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

const run = promisify(execFile);
const repository = join(import.meta.dirname, '..', '..');
const packed = z.tuple([z.object({ filename: z.string(), files: z.array(z.object({ path: z.string() })) })]);

describe('the package', () => {
  const directory = mkdtempSync(join(tmpdir(), 'install-test-'));
  const copy = join(directory, 'repository');
  let files: string[] = [];

  beforeAll(async () => {
    // In a copy: packing builds everything, and other tests use what is built.
    const { stdout: tracked } = await run('git', ['ls-files', '-z'], { cwd: repository, maxBuffer: 16 * 1_048_576 });
    for (const name of tracked.split('\0').filter((each) => /^(src|bin|schemas|docs)\/|^[^/]+$/.test(each))) {
      if (existsSync(join(repository, name))) cpSync(join(repository, name), join(copy, name), { recursive: true });
    }
    symlinkSync(join(repository, 'node_modules'), join(copy, 'node_modules'));
    const { stdout } = await run('npm', ['pack', '--silent', '--json', '--pack-destination', directory], { cwd: copy });
    const [tarball] = packed.parse(JSON.parse(stdout));
    files = tarball.files.map(({ path }) => path);
    writeFileSync(join(directory, 'package.json'), JSON.stringify({ name: 'user', private: true, type: 'module' }));
    await run(
      'npm',
      ['install', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund', join(directory, tarball.filename)],
      { cwd: directory },
    );
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it('holds what it needs, and neither sources nor tests', () => {
    expect(files).toEqual(
      expect.arrayContaining([
        'bin/follow-up.js',
        'dist/workflow-bundle.js',
        'dist/client/index.d.ts',
        'dist/contract/index.js',
        'schemas/follow-up-input.schema.json',
        'LICENSE',
        'README.md',
      ]),
    );
    expect(
      files.filter((path) => /^(src|test|bench|chaos|mutants|scripts|simulation)\/|\.tgz$|\.env/.test(path)),
    ).toEqual([]);
    // Maps lead to sources, and the rest serves those who build.
    expect(files.filter((path) => /\.map$|^bin\/(?!follow-up)|stamp|^dist\/simulation/.test(path))).toEqual([]);
  });

  it('names no directory of the machine that built it', () => {
    const naming = files.filter((path) => /\/tmp\/install-test-/.test(readFileSync(join(copy, path), 'utf8')));
    expect(naming).toEqual([]);
  });

  it('runs the command without building anything', async () => {
    const { stdout, stderr } = await run('npx', ['--no-install', 'follow-up', '--help'], { cwd: directory });
    expect(stdout).toMatch(/Usage: follow-up/);
    expect(stderr).not.toContain('compiled src');
  });

  it('can be imported', async () => {
    const script = `
      import { FollowUpClient } from 'agent-follow-up/client';
      import { followUpWorkflowId } from 'agent-follow-up/contract';
      import schema from 'agent-follow-up/schemas/follow-up-input.schema.json' with { type: 'json' };
      console.log(typeof FollowUpClient, followUpWorkflowId({ projectId: 'p', jobId: 'j', key: 'k' }), schema.required);
    `;
    const { stdout } = await run(process.execPath, ['--input-type=module', '--no-warnings', '-e', script], {
      cwd: directory,
    });
    expect(stdout.trim()).toBe("function follow-up/p/j/k [ 'projectId', 'jobId', 'prompt' ]");
  });
});
