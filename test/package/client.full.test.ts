import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { z } from 'zod';
import { startStack } from '../support/stack.js';
import { copyRepository, install, installTools, pack, repository, run, type Tarball } from './packing.js';

const MAX_MIB_BEYOND_TEMPORAL = 15;
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
const { Client, Connection } = require('@temporalio/client');
const { FollowUpClient } = require('agent-follow-up-client');
(async () => {
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
})();
`;

describe('the client package', () => {
  const directory = mkdtempSync(join(tmpdir(), 'client-test-'));
  const copy = join(directory, 'repository');
  let tarball: Tarball;
  let tool: (name: string) => string;

  /** Makes an empty project with these files. */
  function emptyProject(name: string, files: Record<string, string> = {}): string {
    const path = join(directory, name);
    mkdirSync(path);
    writeFileSync(join(path, 'package.json'), JSON.stringify({ name, private: true }));
    for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text);
    return path;
  }

  /** Makes an empty project and installs packages in it. */
  async function project(name: string, ...packages: string[]): Promise<string> {
    const path = emptyProject(name);
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

  it('is the client of this version, under the same terms', () => {
    const main = readManifest(repository, 'package.json');
    const client = readManifest(repository, 'packages', 'client', 'package.json');
    for (const field of ['version', 'license', 'engines']) expect(client[field]).toEqual(main[field]);
    expect(client.peerDependencies).toEqual({
      '@temporalio/client': `^${OLDEST_TEMPORAL}`,
      '@temporalio/common': `^${OLDEST_TEMPORAL}`,
    });
  });

  it('contains two entries with their types, and names no directory of the machine that built it', () => {
    const files = tarball.files.filter((path) => !path.endsWith('.d.ts'));
    expect(files.map((path) => path.replace(/-[\w-]{8}\.js$/, '.js')).sort()).toEqual([
      ...['LICENSE', 'README.md', 'dist/client/index.js', 'dist/contract/index.js', 'dist/shared.js', 'package.json'],
    ]);
    const installed = join(withNewest, 'node_modules', 'agent-follow-up-client');
    const naming = tarball.files.filter((path) => readFileSync(join(installed, path), 'utf8').includes(directory));
    expect(naming).toEqual([]);
    const declared = readFileSync(join(installed, 'dist', 'contract', 'batch-result.d.ts'), 'utf8');
    expect(declared, 'fields of schemas keep their documentation').toMatch(/counted from 0\. \*\/\s+index: z\./);
  });

  it(`weighs less than ${MAX_MIB_BEYOND_TEMPORAL} MiB beyond @temporalio/client, without worker or servers`, async () => {
    const alone = await project('alone', `@temporalio/client@${newestTemporal}`);
    const kibOf = async (path: string) =>
      Number((await run('du', ['-sk', join(path, 'node_modules')])).stdout.split('\t')[0]);
    const beyond = ((await kibOf(withNewest)) - (await kibOf(alone))) / 1_024;
    console.info(`${beyond.toFixed(1)} MiB beyond @temporalio/client`);
    expect(beyond).toBeLessThan(MAX_MIB_BEYOND_TEMPORAL);
    const namesIn = (path: string) => {
      const { packages } = lock.parse(JSON.parse(readFileSync(join(path, 'package-lock.json'), 'utf8')));
      return Object.keys(packages).map((name) => name.replace(/.*node_modules\//, ''));
    };
    const added = namesIn(withNewest).filter((name) => !namesIn(alone).includes(name));
    expect(added.filter((name) => name !== '').sort()).toEqual(['agent-follow-up-client', 'zod']);
  });

  it('passes publint', async () => {
    const { stdout } = await run(tool('publint'), ['run', '--strict', tarball.path]);
    expect(stdout).toContain('All good!');
  });

  it('has correct types for every module resolution', async () => {
    const { stdout } = await run(tool('attw'), [tarball.path, '--format', 'json']);
    expect(JSON.parse(stdout)).toMatchObject({ problems: {} });
  });

  it.each([
    ['node10', 'commonjs'],
    ['node16', 'node16'],
    ['nodenext', 'nodenext'],
    ['bundler', 'esnext'],
  ])(
    'compiles beside the oldest and the newest @temporalio/client with moduleResolution %s',
    async (resolution, module) => {
      const compiler = join(repository, 'node_modules', 'typescript', 'lib', 'tsc.js');
      for (const path of [withOldest, withNewest]) {
        for (const file of module.startsWith('node') ? ['program.mts', 'program.cts'] : ['program.ts']) {
          writeFileSync(join(path, file), program);
          const options = '--noEmit --strict --skipLibCheck --ignoreDeprecations 6.0 --target es2022 --types node';
          const types = ['--typeRoots', join(repository, 'node_modules/@types')];
          const how = [...options.split(' '), ...types, '--module', module, '--moduleResolution', resolution];
          const errors = await run(process.execPath, [compiler, ...how, file], { cwd: path }).then(
            () => '',
            (error: unknown) => z.object({ stdout: z.string() }).parse(error).stdout,
          );
          expect({ path, file, errors }).toEqual({ path, file, errors: '' });
        }
      }
    },
  );

  it('is the same module whether it is imported or required', async () => {
    const script = `
      import { createRequire } from 'node:module';
      import { FollowUpClient } from 'agent-follow-up-client';
      import { followUpWorkflowId } from 'agent-follow-up-client/contract';
      const required = createRequire(process.cwd() + '/')('agent-follow-up-client');
      console.log(required.FollowUpClient === FollowUpClient, followUpWorkflowId({ projectId: 'p', jobId: 'j', key: 'k' }));
    `;
    for (const cwd of [withOldest, withNewest]) {
      const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd });
      expect(stdout.trim()).toBe('true follow-up/p/j/k');
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

  /** Runs `sender` in a project against a worker, and expects everything of it to work. */
  async function expectSends(cwd: string, ...nodeOptions: string[]): Promise<void> {
    const stack = await startStack({ address: inject('temporalAddress') });
    const projectId = basename(cwd);
    stack.simulator.addJob({ projectId, jobId: 'job' });
    try {
      writeFileSync(join(cwd, 'sender.cjs'), sender);
      const options = [...nodeOptions, 'sender.cjs', inject('temporalAddress'), stack.taskQueue, projectId];
      const { stdout } = await run(process.execPath, options, { cwd });
      expect(JSON.parse(stdout)).toMatchObject({
        status: 'completed',
        prLink: expect.stringContaining('/pull/') as string,
        watched: true,
        alreadyStarted: true,
        inputDiffers: true,
        listed: [`follow-up/${projectId}/job/k`],
      });
      expect(stack.simulator.ledger.map(({ status }) => status)).toEqual([200]);
    } finally {
      await stack.stop();
    }
  }

  it('sends, watches, finds again and lists with the oldest and the newest @temporalio/client', async () => {
    for (const cwd of [withOldest, withNewest]) await expectSends(cwd);
  });

  it('does so installed by pnpm without hoisting, where only declared packages can be loaded', async () => {
    const cwd = emptyProject('pnpm', { '.npmrc': 'hoist=false\n' });
    const flags = ['--ignore-scripts', '--prefer-offline', '--store-dir', join(directory, 'pnpm-store')];
    await run(tool('pnpm'), ['add', ...flags, tarball.path, ...temporal(newestTemporal)], { cwd });
    await expectSends(cwd);
  });

  it("does so installed by yarn with Plug'n'Play, which lets a package load only what it declares", async () => {
    const settings = {
      nodeLinker: 'pnp',
      enableScripts: false,
      enableTelemetry: false,
      globalFolder: join(directory, 'yarn'),
    };
    const { stdout: registry } = await run('npm', ['config', 'get', 'registry']);
    const { SSL_CERT_FILE: httpsCaFilePath } = process.env;
    const reached = { npmRegistryServer: registry.trim(), ...(httpsCaFilePath && { httpsCaFilePath }) };
    // YAML has JSON in it. Without a lock file of its own, yarn looks for a project in the folders above.
    const cwd = emptyProject('yarn', { '.yarnrc.yml': JSON.stringify({ ...settings, ...reached }), 'yarn.lock': '' });
    const packages = [`agent-follow-up-client@file:${tarball.path}`, ...temporal(newestTemporal)];
    await run(tool('yarn'), ['add', ...packages], { cwd });
    await expectSends(cwd, '--require', './.pnp.cjs');
  });

  it.each(['client', 'contract'])(
    'exports what packages/client/api/%s.api.md lists: "vitest run test/package -u" writes it',
    async (entry) => {
      const path = withNewest;
      const installed = join(path, 'node_modules', 'agent-follow-up-client');
      const extracted = join(path, 'extracted');
      cpSync(installed, extracted, { recursive: true });
      const none = { default: { logLevel: 'none' } };
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
            ...none,
            'ae-forgotten-export': { logLevel: 'none', addToApiReportFile: false },
            'ae-undocumented': { logLevel: 'none' },
          },
          tsdocMessageReporting: none,
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
