import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { followUpWorkflowId } from '../../src/contract/index.js';
import { type ServerProcess, startServerProcess, waitUntilReady } from '../../src/dev-server/process.js';
import { findFreePorts } from '../support/programs.js';
import { composeServices as services, dockerStages, lastInstruction, parseCopy, type DockerStage } from './support.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const STEP_TIMEOUT_MS = 600_000;
const run = promisify(execFile);

/** Carries out the instructions of the Dockerfile one by one. The `/app` of each stage is a directory. */
describe('the image, built and run natively by the instructions of its Dockerfile', () => {
  let directory: string;
  let app: string;
  const running: ServerProcess[] = [];

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'image-'));
    const stages = dockerStages;
    const directories = new Map(
      stages.map(({ name }, index) => [name ?? String(index), join(directory, String(index))]),
    );
    for (const [index, stage] of stages.entries()) {
      await carryOut(stage, join(directory, String(index)), directories);
    }
    app = join(directory, String(stages.length - 1));
  }, 1_800_000);

  afterAll(async () => {
    await Promise.all(running.map((server) => server.stop()));
    await rm(directory, { recursive: true, force: true });
  });

  /** The image's ENTRYPOINT with a command of docker-compose.yml. */
  async function start(args: readonly string[], env: Record<string, string>): Promise<ServerProcess> {
    const entrypoint = lastInstruction(dockerStages.at(-1), 'ENTRYPOINT') ?? '[]';
    const [command = '', ...first] = JSON.parse(entrypoint) as string[];
    const server = startServerProcess(command === 'node' ? process.execPath : command, [...first, ...args], {
      cwd: app,
      env: { PATH: process.env['PATH'], HOME: directory, NODE_ENV: 'production', ...env },
    });
    running.push(server);
    return server;
  }

  test('sends a follow-up from its worker to its simulator, and ends at SIGTERM with exit code 0', async () => {
    const [simulatorPort = 0, statusPort = 0] = await findFreePorts(2);
    const simulatorArgs = (services['simulator']?.command ?? []).map((word) =>
      word === '8080' ? String(simulatorPort) : word === '0.0.0.0' ? '127.0.0.1' : word,
    );
    const simulator = await start([...simulatorArgs, '--turn', '200ms'], {});
    const baseUrl = `http://127.0.0.1:${simulatorPort}`;
    await waitUntilReady('simulator', simulator, 60_000, async () => (await fetch(baseUrl)).status > 0);

    const taskQueue = `image-${process.pid}`;
    const worker = await start(services['worker']?.command ?? [], {
      TEMPORAL_ADDRESS: inject('temporalAddress'),
      AGENT_JOBS_BASE_URL: baseUrl,
      AGENT_JOBS_API_KEY_FILE: join(ROOT, 'deploy/simulator-keys/api-key'),
      FOLLOW_UP_STATUS_ADDRESS: `127.0.0.1:${statusPort}`,
      FOLLOW_UP_TASK_QUEUE: taskQueue,
    });
    const status = async (path: string) => (await fetch(`http://127.0.0.1:${statusPort}${path}`)).status;
    await waitUntilReady('worker', worker, 120_000, async () => (await status('/healthz')) === 200);
    await waitUntilReady('worker', worker, 120_000, async () => (await status('/readyz')) === 200);

    const connection = await Connection.connect({ address: inject('temporalAddress') });
    const projectId = `image-${process.pid}`;
    const result: unknown = await new Client({ connection }).workflow.execute('followUp', {
      taskQueue,
      workflowId: followUpWorkflowId({ projectId, jobId: 'job-1', key: 'first' }),
      args: [{ projectId, jobId: 'job-1', prompt: 'Fix the test', poll: { initialInterval: '100ms' } }],
    });
    await connection.close();
    expect(result).toMatchObject({
      status: 'completed',
      delivery: 'sent',
      prLink: expect.stringMatching(/^https?:/) as string,
    });

    expect(await worker.kill('SIGTERM')).toBe(0);
  }, 300_000);

  test('holds no development dependency and no sources', async () => {
    await run('npm', ['ls', '--omit=dev', '--all', '--parseable'], { cwd: app, timeout: STEP_TIMEOUT_MS });
    for (const path of ['node_modules/typescript', 'node_modules/vitest', 'src', 'test']) {
      await expect(cp(join(app, path), join(directory, 'never'))).rejects.toThrow('ENOENT');
    }
  });
});

async function carryOut(stage: DockerStage, target: string, stages: ReadonlyMap<string, string>): Promise<void> {
  await mkdir(target);
  for (const { name, text } of stage.instructions) {
    if (name === 'COPY') {
      const copy = parseCopy(text);
      const from = copy.from === undefined ? ROOT : stages.get(copy.from);
      if (from === undefined) throw new Error(`COPY ${text}: no such stage`);
      for (const source of copy.sources) {
        const relative = source.replace(/^\/app\//, '');
        // A target with a slash at its end is a directory. Any other is the new name.
        const into = copy.target.endsWith('/') ? join(target, relative) : join(target, copy.target);
        await mkdir(dirname(into), { recursive: true });
        await cp(join(from, relative), into, { recursive: true, verbatimSymlinks: true });
      }
    }
    if (name === 'RUN') {
      const { CI: _, ...env } = process.env;
      await run('/bin/sh', ['-c', text], { cwd: target, env, timeout: STEP_TIMEOUT_MS });
    }
  }
}
