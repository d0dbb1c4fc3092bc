import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { copyRepository, install, installTools, pack, run, type Tarball } from './packing.js';

describe('the package', () => {
  const directory = mkdtempSync(join(tmpdir(), 'install-test-'));
  const copy = join(directory, 'repository');
  let tarball: Tarball;
  let files: string[];
  let tool: (name: string) => string;

  beforeAll(async () => {
    await copyRepository(copy);
    tarball = await pack(copy, directory);
    ({ files } = tarball);
    const user = { name: 'user', private: true, type: 'module' };
    writeFileSync(join(directory, 'package.json'), JSON.stringify(user));
    await install(directory, tarball.path);
    mkdirSync(join(directory, 'tools'));
    tool = await installTools(join(directory, 'tools'));
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it('contains what it needs, and neither sources nor tests', () => {
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
    // Maps refer to sources, and the rest is for builds only.
    expect(files.filter((path) => /\.map$|^bin\/(?!follow-up)|stamp|^dist\/simulation/.test(path))).toEqual([]);
  });

  it('contains every file that its pages link to', () => {
    const isHere = (target: string) => files.some((path) => path === target || path.startsWith(`${target}/`));
    const dead = files
      .filter((path) => path.endsWith('.md'))
      .flatMap((page) =>
        [...readFileSync(join(copy, page), 'utf8').matchAll(/\]\(([^)#\s]+)/g)]
          .map(([, link = '']) => link)
          .filter((link) => !/^https?:/.test(link) && !isHere(join(dirname(page), link)))
          .map((link) => `${page}: ${link}`),
      );
    expect(dead).toEqual([]);
  });

  it('names no directory of the machine that built it', () => {
    const naming = files.filter((path) => /\/tmp\/install-test-/.test(readFileSync(join(copy, path), 'utf8')));
    expect(naming).toEqual([]);
  });

  it('passes publint', async () => {
    const { stdout } = await run(tool('publint'), ['run', '--strict', tarball.path]);
    expect(stdout).toContain('All good!');
  });

  it('has types for every module resolution', async () => {
    // Node 20.19 and newer can require an ES module. For TypeScript's node16, there is agent-follow-up-client.
    const options = ['--entrypoints', 'client', 'contract', 'worker', '--ignore-rules', 'cjs-resolves-to-esm'];
    const { stdout } = await run(tool('attw'), [tarball.path, ...options, '--format', 'json']);
    const { problems } = JSON.parse(stdout) as { problems: object };
    expect(Object.keys(problems)).toEqual(['CJSResolvesToESM']);
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
