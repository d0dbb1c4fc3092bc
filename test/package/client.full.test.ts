import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { z } from 'zod';
import { startStack } from '../support/stack.js';
import { copyRepository, install, installTools, pack, repository, run, type Tarball } from './packing.js';

const OLDEST_TEMPORAL = '1.12.3';

const manifest = z.looseObject({
  version: z.string().optional(),
  dependencies: z.record(z.string(), z.string()).default({}),
  peerDependencies: z.record(z.string(), z.string()).default({}),
});
const readManifest = (...path: string[]) => manifest.parse(JSON.parse(readFileSync(join(...path), 'utf8')));
const lock = z.looseObject({ packages: z.record(z.string(), z.unknown()) });
const newestTemporal = readManifest(repository, 'package.json').dependencies['@temporalio/client'] ?? '';

const program = `
import { Client, Connection } from '@temporalio/client';
import { FollowUpClient, FollowUpFailedError, type FollowUpUpdate } from 'agent-follow-up-client';
import { followUpWorkflowId, type FollowUpProgress, type FollowUpResult } from 'agent-follow-up-client/contract';

export async function main(): Promise<string | null> {
  const connection = await Connection.connect({ address: 'localhost:7233' });
  const followUps = new FollowUpClient({ client: new Client({ connection }) });
  try {
    const started = await followUps.start({ projectId: 'p', jobId: 'j', prompt: 'x', poll: { initialInterval: '1s' } });
    for await (const update of started.watch()) {
      const { progress }: FollowUpUpdate = update;
      const known: FollowUpProgress | undefined = progress;
      if (known?.state === 'polling') await started.pollNow();
    }
    const result: FollowUpResult = await started.result();
    return result.prLink;
  } catch (error) {
    if (!(error instanceof FollowUpFailedError)) throw error;
    return error.type + error.delivered + followUpWorkflowId({ projectId: 'p', jobId: 'j', key: 'k' });
  }
}
`;

/** Sends a follow-up with the installed package. Its arguments are the address, the task queue and the project. */
const sender = `
import { Client, Connection } from '@temporalio/client';
import { FollowUpClient } from 'agent-follow-up-client';
const [, , address, taskQueue, projectId] = process.argv;
const connection = await Connection.connect({ address });
const followUps = new FollowUpClient({ client: new Client({ connection }), taskQueue });
const states = new Set();
const started = await followUps.start({ projectId, jobId: 'job', prompt: 'Add tests.', key: 'k' });
for await (const { progress } of started.watch()) states.add(progress?.state);
const { status, prLink } = await started.result();
const again = await followUps.start({ projectId, jobId: 'job', prompt: 'Something else.', key: 'k' });
const listed = [];
for await (const { workflowId } of followUps.list({ project: projectId })) listed.push(workflowId);
const { alreadyStarted, inputDiffers } = again;
console.log(JSON.stringify({ status, prLink, watched: states.has('completed'), alreadyStarted, inputDiffers, listed }));
await connection.close();
`;

describe('the client package', () => {
  const directory = mkdtempSync(join(tmpdir(), 'client-test-'));
  const copy = join(directory, 'repository');
  let tarball: Tarball;
  let tool: (name: string) => string;

  /** Makes an empty project and installs packages in it. */
  async function project(name: string, ...packages: string[]): Promise<string> {
    const path = join(directory, name);
    mkdirSync(path);
    writeFileSync(join(path, 'package.json'), JSON.stringify({ name, private: true }));
    await install(path, ...packages);
    return path;
  }
  const temporal = (version: string) => [`@temporalio/client@${version}`, `@temporalio/common@${version}`];
  let withOldest: string;
  let withNewest: string;

  beforeAll(async () => {
    await copyRepository(copy);
    tarball = await pack(join(copy, 'packages', 'client'), directory);
    mkdirSync(join(directory, 'tools'));
    tool = await installTools(join(directory, 'tools'));
    withOldest = await project('oldest', tarball.path, ...temporal(OLDEST_TEMPORAL));
    withNewest = await project('newest', tarball.path, ...temporal(newestTemporal));
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it('has the version, the license and the engines of the main package, and its own range of Temporal', () => {
    const main = readManifest(repository, 'package.json');
    const client = readManifest(repository, 'packages', 'client', 'package.json');
    for (const field of ['version', 'license', 'engines']) expect(client[field]).toEqual(main[field]);
    expect(client.peerDependencies).toEqual({
      '@temporalio/client': `^${OLDEST_TEMPORAL}`,
      '@temporalio/common': `^${OLDEST_TEMPORAL}`,
    });
  });

  it('names no directory of the machine that built it, and keeps the documentation of its types', () => {
    const installed = join(withNewest, 'node_modules', 'agent-follow-up-client');
    const naming = tarball.files.filter((path) => readFileSync(join(installed, path), 'utf8').includes(directory));
    expect(naming).toEqual([]);
    const declared = readFileSync(join(installed, 'dist', 'contract', 'batch-result.d.ts'), 'utf8');
    expect(declared).toMatch(/from 0\. \*\/\s+index: z\./);
  });

  it('adds only itself and zod to @temporalio/client: neither worker nor servers', async () => {
    const alone = await project('alone', `@temporalio/client@${newestTemporal}`);
    const namesIn = (path: string) => {
      const { packages } = lock.parse(JSON.parse(readFileSync(join(path, 'package-lock.json'), 'utf8')));
      return Object.keys(packages).map((name) => name.replace(/.*node_modules\//, ''));
    };
    const added = namesIn(withNewest).filter((name) => !namesIn(alone).includes(name));
    expect(added.sort()).toEqual(['agent-follow-up-client', 'zod']);
  });

  it('passes publint', async () => {
    const { stdout } = await run(tool('publint'), ['run', '--strict', tarball.path]);
    expect(stdout).toContain('All good!');
  });

  it('has correct types for every module resolution', async () => {
    const { stdout } = await run(tool('attw'), [tarball.path, '--format', 'json']);
    expect(JSON.parse(stdout)).toMatchObject({ problems: {} });
  });

  it('compiles beside the oldest and the newest @temporalio/client', async () => {
    const compiler = join(repository, 'node_modules', 'typescript', 'lib', 'tsc.js');
    const types = ['--types', 'node', '--typeRoots', join(repository, 'node_modules/@types')];
    const options = [...'--noEmit --strict --skipLibCheck --target es2022 --module nodenext'.split(' '), ...types];
    for (const cwd of [withOldest, withNewest]) {
      for (const file of ['program.mts', 'program.cts']) writeFileSync(join(cwd, file), program);
      const compiling = run(process.execPath, [compiler, ...options, 'program.mts', 'program.cts'], { cwd });
      const errors = await compiling.catch((error: unknown) => z.object({ stdout: z.string() }).parse(error));
      expect(errors).toMatchObject({ stdout: '' });
    }
  });

  it('requires only Node and what it declares, each package by its main entry', () => {
    const installed = join(withNewest, 'node_modules', 'agent-follow-up-client');
    const { dependencies, peerDependencies } = readManifest(installed, 'package.json');
    const required = tarball.files
      .filter((path) => path.endsWith('.js'))
      .flatMap((path) => [
        ...readFileSync(join(installed, path), 'utf8').matchAll(/\brequire\(["']([^."'][^"']*)["']\)/g),
      ])
      .map(([, name = '']) => name)
      .filter((name) => !isBuiltin(name));
    expect([...new Set(required)].sort()).toEqual(Object.keys({ ...dependencies, ...peerDependencies }).sort());
  });

  it.each(['oldest', 'newest'])('sends, watches, finds again and lists with the %s @temporalio/client', async (age) => {
    const cwd = age === 'oldest' ? withOldest : withNewest;
    const stack = await startStack({ address: inject('temporalAddress') });
    stack.simulator.addJob({ projectId: age, jobId: 'job' });
    try {
      writeFileSync(join(cwd, 'sender.mjs'), sender);
      const args = ['sender.mjs', inject('temporalAddress'), stack.taskQueue, age];
      const { stdout } = await run(process.execPath, args, { cwd });
      expect(JSON.parse(stdout)).toMatchObject({
        ...{ status: 'completed', prLink: expect.stringContaining('/pull/') as string, watched: true },
        ...{ alreadyStarted: true, inputDiffers: true, listed: [`follow-up/${age}/job/k`] },
      });
      expect(stack.simulator.ledger.map(({ status }) => status)).toEqual([200]);
    } finally {
      await stack.stop();
    }
  });

  it.each(['client', 'contract'])(
    'exports what packages/client/api/%s.api.md lists: "vitest run test/package -u" writes it',
    async (entry) => {
      const path = withNewest;
      const installed = join(path, 'node_modules', 'agent-follow-up-client');
      const extracted = join(path, 'extracted');
      cpSync(installed, extracted, { recursive: true });
      const none = { logLevel: 'none' };
      const settings = {
        projectFolder: extracted,
        mainEntryPointFilePath: `<projectFolder>/dist/${entry}/index.d.ts`,
        apiReport: { enabled: true, reportFolder: path, reportTempFolder: path, reportFileName: entry },
        docModel: { enabled: false },
        dtsRollup: { enabled: false },
        tsdocMetadata: { enabled: false },
        compiler: {
          overrideTsconfig: {
            compilerOptions: { module: 'nodenext', target: 'es2022', types: [], strict: true, skipLibCheck: true },
            files: [`dist/${entry}/index.d.ts`],
          },
        },
        // Messages about forgotten exports have line numbers, which change with every comment.
        messages: {
          extractorMessageReporting: {
            ...{ default: none, 'ae-undocumented': none },
            'ae-forgotten-export': { ...none, addToApiReportFile: false },
          },
          tsdocMessageReporting: { default: none },
          compilerMessageReporting: { default: { logLevel: 'error' } },
        },
      };
      writeFileSync(join(path, 'api-extractor.json'), JSON.stringify(settings));
      await run(tool('api-extractor'), ['run', '--local', '--config', join(path, 'api-extractor.json')]);
      const report = readFileSync(join(path, `${entry}.api.md`), 'utf8').replaceAll('\r\n', '\n');
      await expect(report).toMatchFileSnapshot(join(repository, 'packages/client/api', `${entry}.api.md`));
    },
  );
});
