import { Connection } from '@temporalio/client';
import { expect, inject, onTestFinished, test } from 'vitest';
import { budgetTaskQueue, projectBudgetWorkflowId, WorkflowType } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack } from '../support/stack.js';
import { makeNamespace } from '../worker/support.js';
import { runCli } from './run-cli.js';

test('budget list shows the running budgets of all projects: slots, queue, pauses, and those that do not answer', async () => {
  const address = inject('temporalAddress');
  const connection = await Connection.connect({ address });
  onTestFinished(() => connection.close());
  const namespace = await makeNamespace(connection);
  const stack = await startStack({
    address,
    env: { TEMPORAL_NAMESPACE: namespace, FOLLOW_UP_BUDGET_LIMIT: '2' },
    simulator: { autoCreate: true },
  });
  onTestFinished(() => stack.stop());
  const { client, followUps, taskQueue } = stack;
  const env = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, FOLLOW_UP_TASK_QUEUE: taskQueue };
  const list = (...args: string[]) => runCli(['budget', 'list', ...args], { env });
  expect(await list()).toMatchObject({ exitCode: 0, stdout: '', stderr: expect.stringContaining('no budget runs') });

  await followUps.run({ projectId: 'busy', jobId: 'a', prompt: 'x', ...FAST });
  await followUps.budget('still').pause({ note: 'restored backup' });
  await followUps.start({ projectId: 'still', jobId: 'b', prompt: 'x', ...FAST });
  const stopped = followUps.budget('stopped');
  await stopped.pause();
  await client.workflow.getHandle(stopped.workflowId).terminate();
  await client.workflow.start(WorkflowType.projectBudget, {
    workflowId: projectBudgetWorkflowId('silent'),
    taskQueue: budgetTaskQueue('nobody-polls-this'),
    args: [{ projectId: 'silent', settings: { limit: 1, windowMs: 1_000, reserve: 0, marginMs: 0 } }],
  });
  await followUps.start({ projectId: 'silent', jobId: 'c', prompt: 'x', ...FAST });
  const lines = await eventually(
    'all that run are listed',
    async () => {
      const { stdout } = await list('--json');
      const found = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { workflowId: string });
      const ids = found.map(({ workflowId }) => workflowId).sort();
      return String(ids) === String(['busy', 'silent', 'still'].map(projectBudgetWorkflowId)) ? found : undefined;
    },
    60_000,
  );
  const of = (projectId: string) => lines.find((line) => line.workflowId === projectBudgetWorkflowId(projectId));
  expect(of('busy')).toMatchObject({ projectId: 'busy', limit: 2, used: 1, waitingTotal: 0 });
  expect(of('busy')).not.toHaveProperty('lastSends');
  expect(of('still')).toMatchObject({ used: 0, paused: { reasons: ['operator'] } });
  expect(of('silent')).toMatchObject({ projectId: 'silent', statusUnavailable: expect.any(String) as string });

  const { stdout } = await list();
  expect(stdout).toMatch(/^project +used +waiting +state\n/);
  expect(stdout).toMatch(/^busy +1 of 2 in 1 h +0 +sends: 1 of 2 slots are free$/m);
  // Once a follow-up has asked, the worker's limit is the most.
  expect(stdout).toMatch(/^still +0 of (2|100) in 1 h +\d +paused: by an operator since .* \(restored backup\)$/m);
  expect(stdout).toMatch(/^silent +\? +\? +does not answer: /m);
}, 180_000);
