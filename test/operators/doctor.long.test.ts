import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type DevServer, startDevServer } from '../../src/dev-server/index.js';
import { askCli, runCli } from '../cli/run-cli.js';
import { deleteWorkflow, pauseWorkflow, unpauseWorkflow } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, startStack } from '../support/stack.js';

let server: DevServer;
let stack: Stack;
let env: Record<string, string>;
beforeAll(async () => {
  // The doctor checks a whole namespace, so other tests may leave nothing in it.
  server = await startDevServer({
    env: process.env,
    args: ['--dynamic-config-value', 'frontend.WorkflowPauseEnabled=true'],
  });
  stack = await startStack({ address: server.address, simulator: { autoCreate: true } });
  env = {
    TEMPORAL_ADDRESS: server.address,
    FOLLOW_UP_TASK_QUEUE: stack.taskQueue,
    AGENT_JOBS_BASE_URL: stack.simulator.baseUrl,
    AGENT_JOBS_API_KEY: stack.simulator.apiKey,
  };
});
afterAll(async () => {
  await stack.stop();
  await server.stop();
});

/** The fix of each error or warning of the doctor, by its subject. */
async function workflows(): Promise<{ exitCode: number | null; fixes: Record<string, string> }> {
  const { exitCode, document } = await askCli(['doctor'], { env });
  type Finding = { name: string; subject?: string; status: string; fix: string };
  const found = (document.checks as Finding[]).filter(({ status }) => status === 'error' || status === 'warning');
  return { exitCode, fixes: Object.fromEntries(found.map(({ name, subject = name, fix }) => [subject, fix])) };
}

test('the doctor names each stuck workflow with the command that fixes it, and finds nothing once all are fixed', async () => {
  const { client, followUps } = stack;
  for (const projectId of ['well', 'ended', 'paused']) await followUps.budget(projectId).resume();
  const items = [{ projectId: 'well', jobId: 'stuck-1', prompt: 'Add tests.', ...FAST }];
  const batch = await followUps.startBatch({ id: 'batch', items });
  await eventually('it is open', async () => (await batch.status()).open === 1);
  expect(await workflows()).toEqual({ exitCode: 0, fixes: {} });

  await client.workflow.getHandle('project-budget/ended').terminate('by hand');
  const [part = ''] = await batch.parts();
  const unpause = (workflowId: string) => `temporal workflow unpause --workflow-id ${workflowId}`;
  const paused = ['project-budget/paused', part, 'follow-up/well/stuck-1/batch:0'];
  for (const workflowId of paused) await pauseWorkflow(client, workflowId);
  const fixes = Object.fromEntries(paused.map((workflowId) => [workflowId, unpause(workflowId)]));
  const ended = { 'project-budget/ended': 'follow-up budget restore ended' };
  await expect.poll(workflows).toEqual({ exitCode: 1, fixes: { ...fixes, ...ended } });

  expect((await runCli(['budget', 'restore', 'ended'], { env })).exitCode).toBe(0);
  const refused = await runCli(['budget', 'restore', 'paused'], { env });
  expect(refused.exitCode).not.toBe(0);
  expect(refused.stderr).toContain(unpause('project-budget/paused'));
  const shown = await runCli(['status', 'follow-up/well/stuck-1/batch:0'], { env });
  expect(shown.stdout).toContain(unpause('follow-up/well/stuck-1/batch:0'));
  const status = await runCli(['batch', 'status', 'batch'], { env });
  expect(status.stdout).toContain(unpause(part));
  for (const workflowId of paused) await unpauseWorkflow(client, workflowId);
  await eventually('nothing is stuck', async () => (await workflows()).exitCode === 0);

  await client.workflow.getHandle('follow-up-batch/batch').terminate('by hand');
  const cutOff = await runCli(['batch', 'status', 'batch'], { env });
  expect(cutOff.stdout).toMatch(/terminated[^]*polling +1 in project well/);
});

test('status, budget show and doctor name the cause or the fix if a budget does not reply', async () => {
  const { client, followUps } = stack;
  const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  for (const projectId of ['closed', 'held']) await followUps.budget(projectId).resume();
  await client.workflow.getHandle('project-budget/closed').terminate('by hand');
  await pauseWorkflow(client, 'project-budget/held');
  await client.workflow.start('projectBudget', {
    workflowId: 'project-budget/alone',
    taskQueue: 'nobody-polls-this',
    args: [{ projectId: 'alone', settings }],
  });
  // An input that no worker can read: each of its tasks fails.
  await client.workflowService.startWorkflowExecution({
    namespace: stack.namespace,
    requestId: 'wedged',
    workflowId: 'project-budget/wedged',
    workflowType: { name: 'projectBudget' },
    taskQueue: { name: `${stack.taskQueue}-budget` },
    input: { payloads: [{ metadata: { encoding: Buffer.from('no/encoding') }, data: Buffer.from('x') }] },
  });
  const ways = {
    closed: 'follow-up budget restore closed',
    held: 'temporal workflow unpause --workflow-id project-budget/held',
    alone: 'no worker polls nobody-polls-this',
    wedged: 'follow-up budget restore wedged',
  };
  for (const [projectId, way] of Object.entries(ways)) {
    const { workflowId } = await followUps.start({ projectId, jobId: 'job', prompt: 'Add tests.', ...FAST });
    await eventually(`the status of ${projectId} names the way out`, async () => {
      const { exitCode, stdout } = await runCli(['status', workflowId], { env });
      return exitCode === 0 && stdout.includes('blocked') && stdout.includes(way);
    });
    const { stdout, stderr } = await runCli(['budget', 'show', projectId], { env });
    expect(stdout + stderr).toContain(way);
  }
  const { exitCode, stdout } = await runCli(['doctor'], { env });
  expect(exitCode).toBe(1);
  for (const way of Object.values(ways)) expect(stdout).toContain(way);
  // Each run of the doctor would wait for its answer.
  await client.workflow.getHandle('project-budget/alone').terminate('by hand');

  expect((await runCli(['budget', 'restore', 'wedged', '--assume-full'], { env })).exitCode).toBe(0);
  // First it counts those that wait.
  await eventually('it is full', async () => (await followUps.budget('wedged').status())?.used === 100);
});

test('a budget that was deleted while a follow-up waits is named with the way out, which helps', async () => {
  const { client, followUps } = stack;
  const budget = followUps.budget('deleted');
  await budget.setLimit({ limit: 0 });
  const { workflowId } = await followUps.start({ projectId: 'deleted', jobId: 'job', prompt: 'Add tests.', ...FAST });
  await eventually('it is in line', async () => (await budget.status())?.waitingTotal === 1);
  await deleteWorkflow(client, budget.workflowId);
  await eventually('it is gone', async () => (await budget.state()) === 'none');
  const way = `follow-up poll-now ${workflowId}`;
  for (const command of [['status', workflowId], ['budget', 'show', 'deleted'], ['budget', 'list'], ['doctor']]) {
    await eventually(`${command.join(' ')} names it`, async () => {
      const { stdout } = await runCli(command, { env });
      return stdout.includes('does not exist, although follow-ups wait for it') && stdout.includes(way);
    });
  }
  expect((await runCli(['poll-now', workflowId], { env })).exitCode).toBe(0);
  expect(await followUps.handle(workflowId).result()).toMatchObject({ status: 'completed' });
});

test('a follow-up without an API key is found although its project never had a budget', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'doctor-keys-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const file = join(directory, 'keys.json');
  await writeFile(file, JSON.stringify({ other: stack.simulator.apiKey }), { mode: 0o600 });
  const keys = { AGENT_JOBS_API_KEY: '', AGENT_JOBS_API_KEYS_FILE: file };
  const taskQueue = `keyless-${randomUUID()}`;
  const keyless = await startStack({ address: server.address, taskQueue, env: keys });
  onTestFinished(() => keyless.stop());
  const { baseUrl } = keyless.simulator;
  const itsEnv = { ...env, ...keys, FOLLOW_UP_TASK_QUEUE: taskQueue, AGENT_JOBS_BASE_URL: baseUrl };
  const followUp = await keyless.followUps.start({ projectId: 'keyless', jobId: 'job', prompt: 'Add tests.', ...FAST });
  await eventually('it is blocked', async () => (await followUp.progress()).state === 'blocked');
  const ofProject = (text: string) => text.split('\n').filter((line) => line.includes('keyless'));
  await eventually('the doctor names the project', async () => {
    const { stdout } = await runCli(['doctor'], { env: itsEnv });
    return ofProject(stdout).some((line) => /error +API key +project keyless:/.test(line));
  });
  // Without the settings of the workers, Temporal still shows what the follow-up waits for.
  const bare = await runCli(['doctor'], { env: { TEMPORAL_ADDRESS: server.address, FOLLOW_UP_TASK_QUEUE: taskQueue } });
  expect(bare.exitCode).toBe(1);
  expect(bare.stdout).toMatch(/warning +follow-up +follow-up\/keyless\/job\/\S+ is blocked: .*no API key/);
  await followUp.cancel();
});
