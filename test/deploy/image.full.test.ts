import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type ServerProcess, startServerProcess, waitUntilReady } from '../../src/dev-server/process.js';
import { findFreePorts } from '../support/programs.js';
import { composeServices, type DockerStage, dockerStages, lastInstruction, repositoryPath } from './support.js';

const STEP_TIMEOUT_MS = 600_000;
const run = promisify(execFile);

/** Carries out the instructions of the Dockerfile one by one. The `/app` of each stage is a directory. */
describe('the image, built natively from its Dockerfile', () => {
  let directory: string;
  let app: string;
  const running: ServerProcess[] = [];

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'image-'));
    const stages = new Map<string, string>();
    for (const stage of dockerStages) {
      app = join(directory, stage.name ?? 'app');
      stages.set(stage.name ?? 'app', app);
      await carryOut(stage, app, stages);
    }
  }, 1_800_000);

  afterAll(async () => {
    await Promise.all(running.map((server) => server.stop()));
    await rm(directory, { recursive: true, force: true });
  });

  /** The image's ENTRYPOINT with a command. */
  function start(args: readonly string[], env: Record<string, string> = {}): ServerProcess {
    const entrypoint = JSON.parse(lastInstruction(dockerStages.at(-1), 'ENTRYPOINT') ?? '[]') as string[];
    const server = startServerProcess('env', [...entrypoint, ...args], {
      cwd: app,
      env: { PATH: process.env['PATH'], HOME: directory, NODE_ENV: 'production', ...env },
    });
    running.push(server);
    return server;
  }

  test('sends a follow-up from its worker to its simulator, and ends at SIGTERM with exit code 0', async () => {
    const [simulatorPort = 0, statusPort = 0] = await findFreePorts(2);
    const simulatorArgs = (composeServices['simulator']?.command ?? []).map((word) =>
      word === '8080' ? String(simulatorPort) : word === '0.0.0.0' ? '127.0.0.1' : word,
    );
    const simulator = start([...simulatorArgs, '--turn', '200ms']);
    const baseUrl = `http://127.0.0.1:${simulatorPort}`;
    await waitUntilReady('simulator', simulator, 60_000, async () => (await fetch(baseUrl)).status > 0);

    const env = {
      TEMPORAL_ADDRESS: inject('temporalAddress'),
      AGENT_JOBS_BASE_URL: baseUrl,
      AGENT_JOBS_API_KEY_FILE: repositoryPath('deploy/simulator-keys/api-key'),
      FOLLOW_UP_STATUS_ADDRESS: `127.0.0.1:${statusPort}`,
      FOLLOW_UP_TASK_QUEUE: `image-${process.pid}`,
    };
    const worker = start(composeServices['worker']?.command ?? [], env);
    const readyUrl = `http://127.0.0.1:${statusPort}/readyz`;
    await waitUntilReady('worker', worker, 120_000, async () => (await fetch(readyUrl)).status === 200);

    const sender = start(['send', `image-${process.pid}`, 'job-1', '--prompt', 'Fix the test'], env);
    expect(await sender.exited, sender.lastOutput()).toBe(0);
    expect(sender.lastOutput()).toContain('/pull/');
    expect(await worker.kill('SIGTERM')).toBe(0);
  }, 300_000);

  test('holds no development dependency and no sources', async () => {
    await run('npm', ['ls', '--omit=dev', '--all', '--parseable'], { cwd: app, timeout: STEP_TIMEOUT_MS });
    const excess = ['node_modules/typescript', 'node_modules/vitest', 'src', 'test'];
    expect(excess.filter((path) => existsSync(join(app, path)))).toEqual([]);
  });
});

async function carryOut(stage: DockerStage, target: string, stages: ReadonlyMap<string, string>): Promise<void> {
  await mkdir(target);
  for (const { name, text } of stage.instructions) {
    if (name === 'COPY') {
      const words = text.split(/\s+/);
      const from = words.find((word) => word.startsWith('--from='))?.slice('--from='.length);
      const source = from === undefined ? repositoryPath('.') : (stages.get(from) ?? '');
      const paths = words.filter((word) => !word.startsWith('--'));
      const to = paths.pop() ?? '';
      for (const path of paths.map((each) => each.replace(/^\/app\//, ''))) {
        // A target with a slash at its end is a directory. Any other is the new name.
        const into = to.endsWith('/') ? join(target, path) : join(target, to);
        await mkdir(dirname(into), { recursive: true });
        await cp(join(source, path), into, { recursive: true, verbatimSymlinks: true });
      }
    }
    if (name === 'RUN') {
      const { CI: _, ...env } = process.env;
      await run('/bin/sh', ['-c', text], { cwd: target, env, timeout: STEP_TIMEOUT_MS });
    }
  }
}
