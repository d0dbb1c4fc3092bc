import { randomUUID } from 'node:crypto';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WorkflowNotFoundError } from '@temporalio/client';
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { newState } from '../../src/budget/state.js';
import { InvalidInputError } from '../../src/client/index.js';
import { budgetTaskQueue, projectBudgetWorkflowId, WorkflowType } from '../../src/contract/index.js';
import type { ProjectBudgetInput } from '../../src/contract/protocol.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, type StackOptions, startStack } from '../support/stack.js';
import { samplesOf } from '../worker/prometheus.js';

// Each worker bundles its workflows first.
vi.setConfig({ testTimeout: 180_000 });

const address = inject('temporalAddress');
const WRONG_KEY = 'adm_revoked-key';

async function useStack(options: Omit<StackOptions, 'address'>): Promise<Stack & { projectId: string }> {
  const stack = await startStack({ address, ...options });
  onTestFinished(() => stack.stop());
  return { ...stack, projectId: `trust-${randomUUID()}` };
}

/** A file with an API key, and a way to replace the key. */
async function useKeyFile(key: string): Promise<{ path: string; replace: (key: string) => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'trust-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const path = join(directory, 'key');
  const replace = async (next: string) => {
    await writeFile(`${path}.new`, next, { mode: 0o600 });
    await rename(`${path}.new`, path);
  };
  await replace(key);
  return { path, replace };
}

const accepted = ({ simulator }: Stack, projectId: string) =>
  simulator.ledger.filter((entry) => entry.projectId === projectId && entry.accepted).length;

function startMany({ followUps, simulator }: Stack, projectId: string, names: string[]) {
  return Promise.all(
    names.map((jobId) => {
      simulator.addJob({ projectId, jobId });
      return followUps.start({ projectId, jobId, prompt: `message to ${jobId}`, ...FAST });
    }),
  );
}

/** The log lines with a message. */
function linesOf({ log }: Stack, message: string): Record<string, unknown>[] {
  const lines = log().trim().split('\n');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>).filter(({ msg }) => msg === message);
}

describe('a key that the service refuses', () => {
  test('shows in the follow-up and the metrics, is in no log, and costs no message', async () => {
    const file = await useKeyFile('adm_simulator');
    const stack = await useStack({
      env: { AGENT_JOBS_API_KEY_FILE: file.path },
      simulator: { apiKey: 'adm_simulator' },
    });
    const { projectId } = stack;
    // A budget that starts later than a follow-up has to count first.
    await Promise.all((await startMany(stack, projectId, ['before'])).map((handle) => handle.result()));
    await file.replace(WRONG_KEY);
    const [handle] = await startMany(stack, projectId, ['job']);
    if (!handle) throw new Error('not started');
    const progress = await eventually('it is blocked for its key', async () => {
      const now = await handle.progress();
      // The budget shows the pause before the follow-up has its answer, and with it the error.
      const isKnown = now.pause?.until !== undefined && now.lastError !== undefined;
      return now.state === 'blocked' && isKnown ? now : undefined;
    });
    expect(progress).toMatchObject({
      waitReason: 'credentials',
      lastError: { message: expect.stringContaining('401') as string },
    });
    const samples = samplesOf(await (await fetch(`${stack.statusUrl}/metrics`)).text());
    expect(samples.get('follow_up_get_job_total{outcome="unauthorized"}')).toBeGreaterThan(0);

    await file.replace(stack.simulator.apiKey);
    await eventually('the new key is in use', async () => {
      await stack.followUps.budget(projectId).resume();
      return (await handle.progress()).state !== 'blocked';
    });
    expect(await handle.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(accepted(stack, projectId)).toBe(2);
    expect(stack.log()).not.toContain(WRONG_KEY);
  });

  test('shows while the agent works, until the next read succeeds', async () => {
    const file = await useKeyFile('adm_simulator');
    const stack = await useStack({
      env: { AGENT_JOBS_API_KEY_FILE: file.path },
      simulator: { apiKey: 'adm_simulator', turn: { minMs: 600_000, maxMs: 600_000 } },
    });
    const { projectId } = stack;
    const [handle] = await startMany(stack, projectId, ['job']);
    if (!handle) throw new Error('not started');
    const lastError = async () => (await handle.progress()).lastError?.message;
    await eventually('it polls', async () => (await handle.progress()).jobStatus === 'active');
    await file.replace(WRONG_KEY);
    await eventually('the key is refused', async () => (await lastError())?.includes('401'));
    expect(await handle.progress()).toMatchObject({ state: 'polling', jobStatus: 'active' });
    await file.replace('adm_simulator');
    await eventually('it polls again', async () => (await lastError()) === undefined);
    expect(accepted(stack, projectId)).toBe(1);
    await handle.cancel();
  });
});

describe('a client that may write to the namespace', () => {
  test('causes no read, send or ask for a project that the worker does not serve', async () => {
    const stack = await useStack({ env: { FOLLOW_UP_PROJECTS: 'mine,ours' } });
    const projectId = 'theirs';
    const [handle] = await startMany(stack, projectId, [randomUUID()]);
    await expect(handle?.result()).rejects.toMatchObject({
      type: 'InvalidInput',
      delivered: 'no',
      message: expect.stringMatching(/projectId: this worker does not serve project theirs/) as string,
      details: { issues: [{ field: 'projectId' }] },
    });
    expect(stack.simulator.gets).toBe(0);
    const budget = stack.client.workflow.getHandle(projectBudgetWorkflowId(projectId));
    await expect(budget.describe()).rejects.toThrow(WorkflowNotFoundError);
    const [mine] = await startMany(stack, 'ours', [randomUUID()]);
    expect(await mine?.result()).toMatchObject({ status: 'completed' });
  });

  test('cannot spend more with a budget that it started with a high limit or gave a short window', async () => {
    const stack = await useStack({ env: { FOLLOW_UP_BUDGET_LIMIT: '3', FOLLOW_UP_BUDGET_MAX_LIMIT: '4' } });
    const { projectId, client, taskQueue, followUps } = stack;
    const settings = { limit: 10_000, windowMs: 1_000, reserve: 0, marginMs: 0 };
    const input: ProjectBudgetInput = { projectId, settings };
    await client.workflow.start(WorkflowType.projectBudget, {
      workflowId: projectBudgetWorkflowId(projectId),
      taskQueue: budgetTaskQueue(taskQueue),
      args: [input],
    });
    const handles = await startMany(stack, projectId, ['a', 'b', 'c', 'd', 'e', 'f', 'g']);
    await eventually('four were sent, and the worker refuses three', async () => {
      const progress = await Promise.all(handles.map((handle) => handle.progress()));
      const refusal = /this worker has sent 4 messages in 1 h to project .* FOLLOW_UP_BUDGET_MAX_LIMIT/;
      return progress.filter(({ lastError }) => refusal.test(lastError?.message ?? '')).length === 3;
    });
    const budget = followUps.budget(projectId);
    await expect(budget.setLimit({ limit: 5 })).rejects.toThrow(InvalidInputError);
    await expect(budget.setLimit({ limit: 5 })).rejects.toThrow(
      /limit: must be at most 4, FOLLOW_UP_BUDGET_MAX_LIMIT of the workers/,
    );
    expect(accepted(stack, projectId)).toBe(4);
  });

  test('cannot spend more with a budget that it starts with a state of its own', async () => {
    const stack = await useStack({ env: { FOLLOW_UP_BUDGET_LIMIT: '2' } });
    const { projectId, client, taskQueue, followUps } = stack;
    await Promise.all((await startMany(stack, projectId, ['a', 'b'])).map((handle) => handle.result()));
    const workflowId = projectBudgetWorkflowId(projectId);
    await client.workflow.getHandle(workflowId).terminate();
    const settings = { limit: 2, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
    const state = newState({ ...settings, limit: 100 }, 0);
    await client.workflow.start(WorkflowType.projectBudget, {
      workflowId,
      taskQueue: budgetTaskQueue(taskQueue),
      args: [
        { projectId, settings },
        { ...state, isCounting: false },
      ],
    });
    const [handle] = await startMany(stack, projectId, ['c']);
    await eventually('it waits until the budget has counted', async () => {
      return (await handle?.progress())?.waitReason === 'counting';
    });
    expect(await followUps.budget(projectId).status()).toMatchObject({ limit: 2, isCounting: true });
    expect(accepted(stack, projectId)).toBe(2);
  });
});

test('each send is one log line, with its ids and outcome and without the prompt', async () => {
  const stack = await useStack({ env: { FOLLOW_UP_LOG_LEVEL: 'info' } });
  const { projectId, simulator } = stack;
  simulator.addJob({ projectId, jobId: 'refused' });
  simulator.failNext({ method: 'POST', projectId, jobId: 'refused', how: { status: 500 } });
  const prompt = 'a prompt that nobody may read in a log';
  const start = (jobId: string) => stack.followUps.start({ projectId, jobId, prompt, key: 'k', ...FAST });
  const refused = await start('refused');
  await eventually('it is reconciled', async () => (await refused.progress()).state === 'reconciling');
  simulator.addJob({ projectId, jobId: 'taken' });
  await (await start('taken')).result();

  const workflowOf = (jobId: string) => `follow-up/${projectId}/${jobId}/k`;
  const ids = (jobId: string) => ({ workflowId: workflowOf(jobId), projectId, jobId, sendNumber: 1 });
  const of = (jobId: string, message: string) => linesOf(stack, message).filter((line) => line['jobId'] === jobId);
  expect(of('taken', 'Sent a message')).toMatchObject([
    { level: 'info', ...ids('taken'), outcome: 'sent', statusCode: 200 },
  ]);
  expect(of('refused', 'A message was not accepted')).toMatchObject([
    { level: 'warn', ...ids('refused'), outcome: 'unknown', statusCode: 500 },
  ]);
  expect(stack.log()).not.toContain(prompt);
  expect(stack.log()).not.toContain(simulator.apiKey);
});

test('a key stays used, however its follow-up ended', async () => {
  const { projectId, client, taskQueue, followUps, simulator } = await useStack({});
  simulator.addJob({ projectId, jobId: 'typo' });
  const wrong = await client.workflow.start(WorkflowType.followUp, {
    workflowId: `follow-up/${projectId}/typo/k`,
    taskQueue,
    args: [{ projectId, jobId: 'typo', prompt: 'hello', lane: 'fast' }],
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
  });
  await expect(wrong.result()).rejects.toThrow();
  const start = (jobId: string) => followUps.start({ projectId, jobId, prompt: 'hello', key: 'k', ...FAST });
  const corrected = await start('typo');
  expect(corrected).toMatchObject({ alreadyStarted: true, inputDiffers: true });
  await expect(corrected.result()).rejects.toMatchObject({ type: 'InvalidInput', delivered: 'no' });

  await expect((await start('missing')).result()).rejects.toMatchObject({ type: 'JobNotFound' });
  expect((await start('missing')).alreadyStarted).toBe(true);
});
