import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { startSimulator } from '../../src/simulator/index.js';
import { copyRepository, install, installNode, installTools, pack, run, type Tarball } from './packing.js';

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

  it('contains neither sources nor tests, and names no directory of the machine that built it', () => {
    // Maps refer to sources, and the rest of bin is for builds only.
    const excess = /^(src|test|tools)\/|\.tgz$|\.env|\.map$|^bin\/(?!follow-up)|stamp|^dist\/simulation/;
    expect(files.filter((path) => excess.test(path))).toEqual([]);
    expect(files.filter((path) => readFileSync(join(copy, path), 'utf8').includes('/install-test-'))).toEqual([]);
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

  it.each(['22.23.3', '24.9.0'])('sends a follow-up and ends by SIGTERM on Node %s', async (version) => {
    const node = await installNode(join(directory, `node-${version}`), version);
    const simulator = await startSimulator({ turn: { minMs: 300, maxMs: 600 } });
    // A budget stays on the task queue on which it began.
    const projectId = `node-${version}`;
    simulator.addJob({ projectId, jobId: 'job' });
    const command = join(directory, 'node_modules', 'agent-follow-up', 'bin', 'follow-up.js');
    const env = {
      ...process.env,
      TEMPORAL_ADDRESS: inject('temporalAddress'),
      AGENT_JOBS_BASE_URL: simulator.baseUrl,
      AGENT_JOBS_API_KEY: simulator.apiKey,
      FOLLOW_UP_TASK_QUEUE: projectId,
      FOLLOW_UP_STATUS_ADDRESS: 'off',
    };
    await run(node, [command, 'setup'], { env });
    const worker = spawn(node, [command, 'worker'], { env, stdio: ['ignore', 'ignore', 'inherit'] });
    const exit = once(worker, 'exit');
    try {
      expect((await run(node, ['--version'])).stdout.trim()).toBe(`v${version}`);
      const message = [projectId, 'job', '--prompt', 'Add tests.', '--key', version, '--json'];
      const { stdout } = await run(node, [command, 'send', ...message], { env });
      expect(stdout).toContain('/pull/');
      expect(simulator.ledger.map(({ status }) => status)).toEqual([200]);
    } finally {
      worker.kill('SIGTERM');
      expect(await exit).toEqual([0, null]);
      await simulator.close();
    }
  });

  it('can be imported', async () => {
    const script = `
      import { FollowUpClient } from 'agent-follow-up/client';
      import { followUpWorkflowId } from 'agent-follow-up/contract';
      import schema from 'agent-follow-up/schemas/follow-up-input.schema.json' with { type: 'json' };
      console.log(typeof FollowUpClient, followUpWorkflowId({ projectId: 'p', jobId: 'j', key: 'k' }), schema.required);
    `;
    const args = ['--input-type=module', '--no-warnings', '-e', script];
    const { stdout } = await run(process.execPath, args, { cwd: directory });
    expect(stdout.trim()).toBe("function follow-up/p/j/k [ 'projectId', 'jobId', 'prompt' ]");
  });
});
