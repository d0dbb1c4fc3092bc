import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import { expect, inject, onTestFinished, test } from 'vitest';
import { resolveTemporalCli } from '../../src/dev-server/resolve.js';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/simulator/index.js';
import { askCli, type CliProcess, startCli } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';
import { findFreePorts } from '../support/programs.js';
import { FAST, startStack } from '../support/stack.js';

async function startService(options?: SimulatorOptions): Promise<Simulator> {
  const simulator = await startSimulator(options);
  onTestFinished(() => simulator.close());
  return simulator;
}

function environmentOf(taskQueue: string, { baseUrl, apiKey }: Simulator, env: Record<string, string> = {}) {
  return {
    TEMPORAL_ADDRESS: inject('temporalAddress'),
    FOLLOW_UP_TASK_QUEUE: taskQueue,
    FOLLOW_UP_STATUS_ADDRESS: 'off',
    AGENT_JOBS_BASE_URL: baseUrl,
    AGENT_JOBS_API_KEY: apiKey,
    ...env,
  };
}

function startProcess(env: Record<string, string>): CliProcess {
  const worker = startCli(['worker', '--json'], { env });
  onTestFinished(() => worker.kill('SIGKILL'));
  return worker;
}

/** The worker's name, once it takes follow-ups. */
async function nameOf(worker: CliProcess): Promise<string> {
  await expect.poll(() => worker.stdout()).toContain('"identity"');
  const { identity } = JSON.parse(worker.stdout()) as { identity: string };
  return identity.split('/', 2).join('/');
}

interface Finding {
  name: string;
  status: string;
  message: string;
  fix?: string;
}

async function findings(env: Record<string, string>): Promise<Finding[]> {
  const { document } = await askCli(['doctor'], { env });
  return (document.checks as Finding[]).filter(({ name }) => name === 'workers');
}

test('a worker with the address of another service does not start, names both workers, and starts when the other is gone', async () => {
  const taskQueue = `workers-${randomUUID()}`;
  const [production, staging] = [await startService(), await startService()];
  const first = startProcess(environmentOf(taskQueue, production));
  const name = await nameOf(first);
  const env = environmentOf(taskQueue, staging);
  const second = await startProcess(env).ended;
  expect(second.exitCode).toBe(2);
  expect(second.stderr).toMatch(/AGENT_JOBS_BASE_URL.*must be the same for all workers of task queue workers-/);
  expect(second.stderr).toContain(name);
  expect(second.stderr).not.toContain(production.baseUrl);
  const differs = expect.stringMatching(/^AGENT_JOBS_BASE_URL differs: .*\| this environment$/);
  expect(await findings(env)).toContainEqual(expect.objectContaining({ status: 'note', message: differs }));

  first.kill('SIGKILL');
  await first.ended;
  expect(await nameOf(startProcess(env))).not.toBe(name);
});

test('of two workers with different services that start at the same time, at most one stays', async () => {
  const taskQueue = `workers-${randomUUID()}`;
  const services = [await startService(), await startService()];
  const workers = services.map((service) => startProcess(environmentOf(taskQueue, service)));
  const ended = await Promise.race(workers.map(({ ended }) => ended));
  expect(ended.exitCode).toBe(2);
  expect(ended.stderr).toContain('must be the same for all workers');
});

/** Starts Node.js with a wall clock that is wrong. */
const withClock = (aheadMs: number) => ({
  NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(`const now=Date.now;Date.now=()=>now()+${aheadMs};`)}`,
});

test('a worker whose clock is ten minutes ahead says so, and so does the follow-up that it cannot send', async () => {
  const service = await startService({ autoCreate: true });
  const taskQueue = `workers-${randomUUID()}`;
  const [port] = await findFreePorts(1);
  const env = environmentOf(taskQueue, service, { FOLLOW_UP_STATUS_ADDRESS: `127.0.0.1:${String(port)}` });
  const worker = startProcess({ ...env, ...withClock(600_000) });
  await nameOf(worker);
  const ahead = /the clock of this worker's machine is (10 min|9 min \d+ s) ahead of the Temporal server's/;
  expect(worker.stderr()).toMatch(ahead);
  const probe = await fetch(`http://127.0.0.1:${String(port)}/readyz`);
  expect([probe.status, await probe.text()]).toEqual([200, expect.stringMatching(ahead)]);
  const metrics = await (await fetch(`http://127.0.0.1:${String(port)}/metrics`)).text();
  const offset = Number(/^follow_up_clock_offset_seconds (\S+)$/m.exec(metrics)?.[1]);
  expect(offset).toBeGreaterThan(590);
  expect(offset).toBeLessThan(610);
  expect(await findings(env)).toContainEqual(
    expect.objectContaining({ status: 'warning', message: expect.stringMatching(ahead) as string }),
  );

  const { document } = await askCli(['send', taskQueue, 'job', '--prompt', 'Go on.', '--no-wait'], { env });
  await expect
    .poll(async () => JSON.stringify((await askCli(['status', String(document.workflowId)], { env })).document))
    .toMatch(ahead);
  expect(service.ledger).toEqual([]);
});

test(
  'workers of a version that nobody made current are found with the command that does',
  { tags: 'long' },
  async () => {
    const version = { TEMPORAL_DEPLOYMENT_NAME: `workers-${randomUUID()}`, TEMPORAL_WORKER_BUILD_ID: '1.0' };
    const stack = await startStack({
      address: inject('temporalAddress'),
      env: version,
      simulator: { autoCreate: true },
    });
    onTestFinished(() => stack.stop());
    const env = environmentOf(stack.taskQueue, stack.simulator);
    const command = `temporal worker deployment set-current-version --deployment-name ${version.TEMPORAL_DEPLOYMENT_NAME} --build-id 1.0`;
    expect(await (await fetch(`${stack.statusUrl}/readyz`)).text()).toContain(command);
    const started = await stack.followUps.start({
      projectId: stack.taskQueue,
      jobId: 'job',
      prompt: 'Go on.',
      ...FAST,
    });
    for (const { status, fix } of await findings(env)) expect([status, fix]).toEqual(['error', command]);
    const shown = await askCli(['status', started.workflowId], { env });
    expect(JSON.stringify(shown.document)).toContain(command);
    expect(await stack.followUps.idleTaskQueue()).toBe(stack.taskQueue);

    const cli = await resolveTemporalCli({ env: process.env });
    const [, ...args] = command.split(' ');
    await eventually('the server knows the version', async () => {
      await promisify(execFile)(cli, [...args, '--yes', '--address', inject('temporalAddress')]);
      return true;
    });
    expect(await started.result()).toMatchObject({ status: 'completed' });
    for (const { status } of await findings(env)) expect(status).toBe('ok');
    expect(await stack.followUps.idleTaskQueue()).toBeUndefined();
    expect(await (await fetch(`${stack.statusUrl}/readyz`)).text()).toBe('ready\n');
  },
);
