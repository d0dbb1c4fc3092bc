import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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
  let files: string[] = [];

  beforeAll(async () => {
    // The tests are run with a fresh build: packing need not make another.
    const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', directory], {
      cwd: repository,
    });
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
        'bin/build.js',
        'bin/follow-up.js',
        'dist/workflow-bundle.js',
        'dist/client/index.d.ts',
        'dist/contract/index.js',
        'schemas/follow-up-input.schema.json',
        'LICENSE',
        'README.md',
      ]),
    );
    expect(files.filter((path) => /^(src|test|bench|scripts)\/|\.tgz$|\.env/.test(path))).toEqual([]);
  });

  it('names no directory of the machine that built it', () => {
    const naming = files.filter((path) => readFileSync(join(repository, path), 'utf8').includes(repository));
    expect(naming).toEqual([]);
  });

  it('runs the command without building anything', async () => {
    const { stdout, stderr } = await run('npx', ['--no-install', 'follow-up', '--help'], { cwd: directory });
    expect(stdout).toMatch(/Usage: follow-up/);
    expect(stderr).not.toContain('built dist');
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
