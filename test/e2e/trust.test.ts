import { randomUUID } from 'node:crypto';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WorkflowNotFoundError } from '@temporalio/client';
import { afterAll, describe, expect, test } from 'vitest';
import { newState } from '../../src/budget/state.js';
import { InvalidInputError } from '../../src/client/index.js';
import { budgetTaskQueue, projectBudgetWorkflowId, WorkflowType } from '../../src/contract/index.js';
import type { ProjectBudgetInput } from '../../src/protocol/index.js';
import { eventually } from '../support/eventually.js';
import { type Project, reaches, useStack } from '../support/project.js';
import { samplesOf } from '../worker/prometheus.js';

const KEY = 'adm_simulator';
const WRONG_KEY = 'adm_revoked-key';
/** The projects that the worker serves. */
const [served, forged, stateful, logged] = Array.from({ length: 4 }, () => `trust-${randomUUID()}`) as [
  ...[string, string, string, string],
];

const directory = mkdtempSync(join(tmpdir(), 'trust-'));
afterAll(() => rmSync(directory, { recursive: true }));
const keyFile = join(directory, 'key');
function replaceKey(key: string): void {
  writeFileSync(`${keyFile}.new`, key, { mode: 0o600 });
  renameSync(`${keyFile}.new`, keyFile);
}
replaceKey(KEY);

const tested = useStack({
  env: {
    AGENT_JOBS_API_KEY: '',
    AGENT_JOBS_API_KEY_FILE: keyFile,
    FOLLOW_UP_PROJECTS: [served, forged, stateful, logged].join(),
    FOLLOW_UP_BUDGET_LIMIT: '3',
    FOLLOW_UP_BUDGET_MAX_LIMIT: '4',
    FOLLOW_UP_LOG_LEVEL: 'info',
  },
  simulator: { apiKey: KEY },
});

/** Starts a project's budget as anyone who may write to the namespace can. */
const startBudget = ({ id, stack: { client, taskQueue } }: Project, settings: object, ...more: unknown[]) => {
  const input = { projectId: id, settings: { reserve: 0, ...settings } } as ProjectBudgetInput;
  return client.workflow.start(WorkflowType.projectBudget, {
    workflowId: projectBudgetWorkflowId(id),
    taskQueue: budgetTaskQueue(taskQueue),
    args: [input, ...more],
  });
};

test('follow-ups show a refused API key before the send and while the agent works, and no message is lost', async () => {
  const project = tested.newProject(served);
  project.addEndlessJob('first');
  const first = await project.start('first');
  await eventually('it polls', async () => (await first.progress()).jobStatus === 'active');
  replaceKey(WRONG_KEY);
  const lastError = async () => (await first.progress()).lastError?.message;
  await eventually('the key is refused', async () => (await lastError())?.includes('401'));
  expect(await first.progress()).toMatchObject({ state: 'polling', jobStatus: 'active' });

  const second = await project.start('second');
  const progress = await eventually('it is blocked, and knows the pause', async () => {
    const now = await reaches(second, 'blocked', 'credentials');
    return now.pause?.until !== undefined && now.lastError !== undefined ? now : undefined;
  });
  expect(progress.lastError?.message).toContain('401');
  const samples = samplesOf(await (await fetch(`${tested.stack.statusUrl}/metrics`)).text());
  expect(samples.get('follow_up_get_job_total{outcome="credentials"}')).toBeGreaterThan(0);
  expect(project.delivered).toEqual(['first']);

  replaceKey(KEY);
  await eventually('the new key is in use', async () => {
    await project.budget.resume();
    return (await second.progress()).state !== 'blocked';
  });
  await eventually('the first can be read', async () => (await lastError()) === undefined);
  project.endTurn('first');
  await project.endWell([first, second]);
  expect(tested.stack.log()).not.toContain(WRONG_KEY);
});

describe('a client that may write to the namespace', () => {
  test('causes no read, send or ask for a project that the worker does not serve', async () => {
    const theirs = tested.newProject();
    const before = tested.stack.simulator.gets;
    const followUp = await theirs.start();
    const { lastError } = await reaches(followUp, 'blocked', 'not-served');
    expect(lastError?.message).toContain(`this worker does not serve project ${theirs.id} (FOLLOW_UP_PROJECTS)`);
    expect(tested.stack.simulator.gets).toBe(before);
    await expect(theirs.workflow().describe()).rejects.toThrow(WorkflowNotFoundError);
    await followUp.cancel();
    await expect(followUp.result()).rejects.toMatchObject({ type: 'Cancelled', delivered: 'no' });
  });

  test('cannot exceed the worker’s limit with a budget that it starts with a high limit and a short window', async () => {
    const project = tested.newProject(forged);
    await startBudget(project, { limit: 10_000, windowMs: 1_000, marginMs: 0 });
    const followUps = await project.startMany(7);
    await eventually('four were sent, and the worker refuses three', async () => {
      const progress = await Promise.all(followUps.map((followUp) => followUp.progress()));
      const refusal = /this worker has sent 4 messages in 1 h to project .* FOLLOW_UP_BUDGET_MAX_LIMIT/;
      return progress.filter(({ lastError }) => refusal.test(lastError?.message ?? '')).length === 3;
    });
    const raised = project.budget.setLimit({ limit: 5 });
    await expect(raised).rejects.toThrow(InvalidInputError);
    await expect(raised).rejects.toThrow(/limit: must be at most 4, FOLLOW_UP_BUDGET_MAX_LIMIT of the workers/);
    expect(project.delivered).toHaveLength(4);
  });

  test('cannot exceed the worker’s limit with a budget that it starts with a state of its own', async () => {
    const project = tested.newProject(stateful);
    await project.endWell(await project.startMany(3));
    await project.workflow().terminate();
    const settings = { limit: 3, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
    await startBudget(project, settings, { ...newState({ ...settings, limit: 100 }, 0), isCounting: false });
    // Until the budget has counted.
    await reaches(await project.start('next'), 'blocked', 'counting');
    expect(await project.status()).toMatchObject({ limit: 3, isCounting: true });
    expect(project.delivered).toHaveLength(3);
  });
});

test('each send is one log line, with its ids and outcome and without the prompt', async () => {
  const project = tested.newProject(logged);
  tested.stack.simulator.failNext({ method: 'POST', projectId: logged, jobId: 'refused', how: { status: 500 } });
  const prompt = 'a prompt that nobody may read in a log';
  await reaches(await project.start('refused', { prompt, key: 'k' }), 'reconciling');
  await (await project.start('taken', { prompt, key: 'k' })).result();

  const lines = tested.stack.log().trim().split('\n');
  const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  const of = (jobId: string, message: string) =>
    parsed.filter((line) => line['msg'] === message && line['jobId'] === jobId && line['projectId'] === logged);
  const ids = (jobId: string) => ({ workflowId: `follow-up/${logged}/${jobId}/k`, sendNumber: 1 });
  expect(of('taken', 'Sent a message')).toMatchObject([
    { level: 'info', ...ids('taken'), outcome: 'sent', statusCode: 200 },
  ]);
  expect(of('refused', 'A message was not accepted')).toMatchObject([
    { level: 'warn', ...ids('refused'), outcome: 'unknown', statusCode: 500 },
  ]);
  expect(tested.stack.log()).not.toContain(prompt);
  expect(tested.stack.log()).not.toContain(KEY);
});
