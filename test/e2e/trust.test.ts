import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type WorkflowHandle, WorkflowNotFoundError } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { parse } from 'yaml';
import { InvalidInputError } from '../../src/client/index.js';
import { budgetTaskQueue, projectBudgetWorkflowId, WorkflowType } from '../../src/contract/index.js';
import { carriedStateQuery, type ProjectBudgetInput } from '../../src/contract/protocol.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, type StackOptions, startStack } from '../support/stack.js';
import { budgetSamples, samplesOf } from '../worker/prometheus.js';

// Each worker bundles its workflows first.
vi.setConfig({ testTimeout: 180_000 });

const address = inject('temporalAddress');
const WRONG_KEY = 'adm_revoked-key';

type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

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

const budgetSeries = async ({ statusUrl }: Stack, projectId: string) =>
  budgetSamples(await (await fetch(`${statusUrl}/metrics`)).text(), projectId);
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

/** The expression of an alert in deploy/prometheus/alerts.yaml. */
async function exprOfAlert(name: string): Promise<string | undefined> {
  const text = await readFile(new URL('../../deploy/prometheus/alerts.yaml', import.meta.url), 'utf8');
  const { groups } = parse(text) as { groups: { rules: { alert: string; expr: string }[] }[] };
  return groups.flatMap(({ rules }) => rules).find(({ alert }) => alert === name)?.expr;
}

/** The type of the local activity that an event records. */
function localActivityOf({ markerRecordedEventAttributes: marker }: HistoryEvent): string | undefined {
  const [payload] = marker?.details?.['data']?.payloads ?? [];
  return payload && defaultPayloadConverter.fromPayload<{ activity_type: string }>(payload).activity_type;
}

/** The log lines with a message. */
function linesOf({ log }: Stack, message: string): Record<string, unknown>[] {
  const lines = log().trim().split('\n');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>).filter(({ msg }) => msg === message);
}

describe('a key that the service refuses', () => {
  test('shows after the first read in the follow-up, in the budget’s metrics and in the log', async () => {
    const file = await useKeyFile(WRONG_KEY);
    const stack = await useStack({ env: { AGENT_JOBS_API_KEY_FILE: file.path } });
    const { projectId, client } = stack;
    const [handle] = await startMany(stack, projectId, ['job']);
    if (!handle) throw new Error('not started');
    await eventually('it is blocked for its key', async () => {
      const { state, waitReason } = await handle.progress();
      return state === 'blocked' && waitReason === 'credentials';
    });
    const { events = [] } = await client.workflow.getHandle(handle.workflowId).fetchHistory();
    const shown = events?.findIndex((event) => event.upsertWorkflowSearchAttributesEventAttributes) ?? -1;
    const before = events?.slice(0, shown).map(localActivityOf);
    expect(before?.filter((type) => type === 'getJob')).toHaveLength(1);
    expect(await exprOfAlert('FollowUpKeyRefused')).toBe(
      'max by (project) (follow_up_budget_paused{reason="credentials"}) == 1',
    );
    await eventually('the alert has its series', async () => {
      return (await budgetSeries(stack, projectId))['paused{reason="credentials"}'] === 1;
    });
    expect((await stack.followUps.budget(projectId).status())?.paused?.reasons).toEqual(['credentials']);
    const [line] = linesOf(stack, 'The API key of a project is missing, or the service refuses it');
    expect(line).toMatchObject({ level: 'warn', projectId, jobId: 'job', outcome: 'unauthorized', statusCode: 401 });

    await file.replace(stack.simulator.apiKey);
    expect(await handle.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect((await budgetSeries(stack, projectId))['paused{reason="credentials"}']).toBe(0);
    expect(stack.log()).not.toContain(WRONG_KEY);
  });

  test('shows while the agent works, until the next read succeeds', async () => {
    const file = await useKeyFile('adm_simulator');
    const stack = await useStack({
      env: { AGENT_JOBS_API_KEY_FILE: file.path },
      simulator: { apiKey: 'adm_simulator', turn: { minMs: 600_000, maxMs: 600_000 } },
    });
    const { projectId, simulator } = stack;
    const [handle] = await startMany(stack, projectId, ['job']);
    if (!handle) throw new Error('not started');
    await eventually('it polls', async () => (await handle.progress()).state === 'polling');
    await file.replace(WRONG_KEY);
    await eventually('it is blocked for its key', async () => (await handle.progress()).waitReason === 'credentials');
    await eventually('the budget knows', async () => {
      return (await budgetSeries(stack, projectId))['paused{reason="credentials"}'] === 1;
    });
    await file.replace('adm_simulator');
    await eventually('it polls again', async () => (await handle.progress()).state === 'polling');
    await eventually('the budget knows that, too', async () => {
      return (await budgetSeries(stack, projectId))['paused{reason="credentials"}'] === 0;
    });
    expect(accepted(stack, projectId)).toBe(1);
    simulator.update({ turn: { minMs: 1, maxMs: 1 } });
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
    const budget = followUps.budget(projectId);
    await eventually('four were sent, and three wait', async () => {
      const status = await budget.status();
      return status?.unsettled === 0 && status.waiting.filter(({ position }) => position !== undefined).length === 3;
    });
    await expect(budget.setLimit({ limit: 5 })).rejects.toThrow(InvalidInputError);
    await expect(budget.setLimit({ limit: 5 })).rejects.toThrow(
      /limit: must be at most 4, FOLLOW_UP_BUDGET_MAX_LIMIT of the workers/,
    );
    expect(await budget.setLimit({ limit: 4, window: '1s' })).toMatchObject({ limit: 4, windowMs: 1_000, used: 4 });
    // Each waiting follow-up asks again after the end of the window.
    const waiting = (await budget.status())?.waiting ?? [];
    const countAsks = async () => {
      const samples = samplesOf(await (await fetch(`${stack.statusUrl}/metrics`)).text());
      return [...samples].find(([name]) => /budget_ask_total.*reason="slot"/.test(name))?.[1] ?? 0;
    };
    const before = await countAsks();
    await Promise.all(waiting.map(({ workflowId }) => followUps.handle(workflowId).pollNow()));
    await eventually('they have asked again', async () => (await countAsks()) >= before + waiting.length);
    expect(handles).toHaveLength(7);
    expect(accepted(stack, projectId)).toBe(4);
  });

  test('cannot spend more at a worker with a forged budget state', async () => {
    const stack = await useStack({ env: { FOLLOW_UP_BUDGET_LIMIT: '2' } });
    const { projectId, client, taskQueue } = stack;
    await Promise.all((await startMany(stack, projectId, ['a', 'b'])).map((handle) => handle.result()));
    const workflowId = projectBudgetWorkflowId(projectId);
    const state = await client.workflow.getHandle(workflowId).query<Record<string, unknown>>(carriedStateQuery.name);
    await client.workflow.getHandle(workflowId).terminate();
    const restored = { ...state, grants: [], spent: [], memory: '' };
    await client.workflow.start(WorkflowType.projectBudget, {
      workflowId,
      taskQueue: budgetTaskQueue(taskQueue),
      args: [{ projectId, settings: state['settings'], restored }],
    });
    const [handle] = await startMany(stack, projectId, ['c']);
    await eventually('the worker refuses, and says why', async () => {
      const { lastError } = (await handle?.progress()) ?? {};
      return /has sent 2 messages in 1 h to project .* FOLLOW_UP_BUDGET_MAX_LIMIT/.test(lastError?.message ?? '');
    });
    expect(accepted(stack, projectId)).toBe(2);
  });
});

test('each send and each refusal is one log line, with its ids and outcome and without the prompt', async () => {
  const stack = await useStack({ env: { FOLLOW_UP_BUDGET_LIMIT: '2', FOLLOW_UP_LOG_LEVEL: 'info' } });
  const { projectId, simulator } = stack;
  simulator.addJob({ projectId, jobId: 'refused' });
  simulator.failNext({ method: 'POST', projectId, jobId: 'refused', kind: 'http500' });
  const prompt = 'a prompt that nobody may read in a log';
  const start = (jobId: string) => stack.followUps.start({ projectId, jobId, prompt, key: 'k', ...FAST });
  const refused = await start('refused');
  await eventually('it is reconciled', async () => (await refused.progress()).state === 'reconciling');
  simulator.addJob({ projectId, jobId: 'taken' });
  await (await start('taken')).result();
  simulator.addJob({ projectId, jobId: 'late' });
  const late = await start('late');
  await eventually('it waits', async () => (await late.progress()).state === 'waiting-for-budget');

  const workflowOf = (jobId: string) => `follow-up/${projectId}/${jobId}/k`;
  const ids = (jobId: string) => ({ workflowId: workflowOf(jobId), projectId, jobId, sendNumber: 1 });
  const of = (jobId: string, message: string) => linesOf(stack, message).filter((line) => line['jobId'] === jobId);
  expect(of('taken', 'Sent a message')).toMatchObject([
    { level: 'info', ...ids('taken'), outcome: 'sent', statusCode: 200, waitMs: expect.any(Number) as number },
  ]);
  expect(of('refused', 'A message was not taken')).toMatchObject([
    { level: 'warn', ...ids('refused'), outcome: 'unknown', statusCode: 500 },
  ]);
  const held = await eventually(
    'the refusal is logged',
    () => of('late', 'The budget did not let a message through')[0],
  );
  expect(held).toMatchObject({
    level: 'info',
    ...ids('late'),
    outcome: 'wait',
    reason: 'slot',
    waitMs: expect.any(Number) as number,
    position: 1,
  });
  expect(stack.log()).not.toContain(prompt);
  expect(stack.log()).not.toContain(simulator.apiKey);
});

test('a key is free again after InvalidInput, and stays used after any other end', async () => {
  const stack = await useStack({});
  const { projectId, client, taskQueue, followUps, simulator } = stack;
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
  expect(corrected.alreadyStarted).toBe(false);
  expect(await corrected.result()).toMatchObject({ status: 'completed', delivery: 'sent' });
  expect((await start('typo')).alreadyStarted).toBe(true);
  expect(accepted(stack, projectId)).toBe(1);

  await expect((await start('missing')).result()).rejects.toMatchObject({ type: 'JobNotFound' });
  expect((await start('missing')).alreadyStarted).toBe(true);
});
