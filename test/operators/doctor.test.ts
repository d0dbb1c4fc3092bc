import { afterAll, beforeAll, expect, test } from 'vitest';
import { pauseWorkflow, resetWorkflow, unpauseWorkflow } from '../../chaos/buttons.js';
import { startDevServer, type DevServer } from '../../src/embedded/dev-server.js';
import { runCli } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

let server: DevServer;
let stack: Stack;
let env: Record<string, string>;
beforeAll(async () => {
  // The doctor looks at a whole namespace: no other test may leave anything in it.
  server = await startDevServer({
    env: process.env,
    extraArgs: ['--dynamic-config-value', 'frontend.WorkflowPauseEnabled=true'],
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

/** What the doctor says of workflows, by their ids. */
async function workflows(): Promise<{ exitCode: number | null; mends: Record<string, string> }> {
  const { exitCode, stdout } = await runCli(['doctor', '--json'], { env });
  const { checks } = JSON.parse(stdout) as { checks: { name: string; message: string; mend?: string }[] };
  const found = checks.filter(({ name }) => name === 'workflow');
  return {
    exitCode,
    mends: Object.fromEntries(found.map(({ message, mend = '' }) => [message.split(' ')[0] ?? '', mend])),
  };
}

test('the doctor names each workflow that stands with the command that mends it, and is content when all are mended', async () => {
  const { client, followUps } = stack;
  for (const projectId of ['well', 'ended', 'paused', 'reset']) await followUps.budget(projectId).resume();
  const items = [{ projectId: 'well', jobId: 'stuck-1', prompt: 'Add tests.', ...FAST }];
  const batch = await followUps.startBatch({ id: 'batch', items });
  await eventually('it is open', async () => (await batch.status()).open === 1);
  expect(await workflows()).toEqual({ exitCode: 0, mends: {} });

  await client.workflow.getHandle('project-budget/ended').terminate('by hand');
  await resetWorkflow(client, 'project-budget/reset', 'first');
  await pauseWorkflow(client, 'project-budget/paused');
  await pauseWorkflow(client, 'follow-up-batch/batch/0');
  await pauseWorkflow(client, 'follow-up/well/stuck-1/batch:0');
  const unpause = (workflowId: string) => `temporal workflow unpause --workflow-id ${workflowId}`;
  await eventually('all are named', async () => Object.keys((await workflows()).mends).length === 5);
  expect(await workflows()).toEqual({
    exitCode: 1,
    mends: {
      'project-budget/ended': 'follow-up budget restore ended',
      'project-budget/reset': 'follow-up budget restore reset',
      'project-budget/paused': unpause('project-budget/paused'),
      'follow-up-batch/batch/0': unpause('follow-up-batch/batch/0'),
      'follow-up/well/stuck-1/batch:0': unpause('follow-up/well/stuck-1/batch:0'),
    },
  });

  for (const projectId of ['ended', 'reset']) {
    expect((await runCli(['budget', 'restore', projectId], { env })).exitCode).toBe(0);
  }
  const refused = await runCli(['budget', 'restore', 'paused'], { env });
  expect(refused.exitCode).not.toBe(0);
  expect(refused.stderr).toContain(unpause('project-budget/paused'));
  const shown = await runCli(['status', 'follow-up/well/stuck-1/batch:0'], { env });
  expect(shown.stdout).toContain(unpause('follow-up/well/stuck-1/batch:0'));
  const status = await runCli(['batch', 'status', 'batch'], { env });
  expect(status.stdout).toContain(unpause('follow-up-batch/batch/0'));
  for (const workflowId of ['project-budget/paused', 'follow-up-batch/batch/0', 'follow-up/well/stuck-1/batch:0']) {
    await unpauseWorkflow(client, workflowId);
  }
  await eventually('nothing stands', async () => (await workflows()).exitCode === 0);

  await client.workflow.getHandle('follow-up-batch/batch').terminate('by hand');
  const ended = await runCli(['batch', 'status', 'batch'], { env });
  expect(ended.stdout).toContain('terminated');
  expect(ended.stdout).toContain('1 follow-up runs still');
}, 180_000);

test('the status of a follow-up, the budget and the doctor say why a budget does not answer, and the way out', async () => {
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
    alone: 'nobody polls nobody-polls-this',
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

  const unreadable = await runCli(['budget', 'restore', 'wedged'], { env });
  expect(unreadable.exitCode).not.toBe(0);
  expect(unreadable.stderr).toContain('--assume-full');
  expect((await runCli(['budget', 'restore', 'wedged', '--assume-full'], { env })).exitCode).toBe(0);
  expect((await followUps.budget('wedged').status())?.used).toBe(100);
}, 240_000);
