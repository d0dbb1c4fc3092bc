import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { FollowUpClient, type ListedBudget } from '../../src/client/index.js';
import { firstBudgetStart } from '../../src/contract/protocol.js';
import { projectBudgetWorkflowId, WorkflowType } from '../../src/contract/index.js';
import { answer, startPeer } from '../agent-jobs/support/peer.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';
import { makeNamespace } from '../worker/support.js';
import { runCli } from './run-cli.js';

interface Check {
  name: string;
  subject?: string;
  status: string;
  message: string;
  since?: string;
  why?: string;
  fix?: string;
}

let connection: Connection;
let stack: Stack;
let env: Record<string, string>;
beforeAll(async () => {
  // The doctor checks a whole namespace, so other tests may leave nothing in it.
  connection = await Connection.connect({ address: inject('temporalAddress') });
  const namespace = await makeNamespace(connection);
  stack = await startStack({
    address: inject('temporalAddress'),
    env: { TEMPORAL_NAMESPACE: namespace },
    simulator: { autoCreate: true },
  });
  env = {
    TEMPORAL_ADDRESS: inject('temporalAddress'),
    TEMPORAL_NAMESPACE: namespace,
    FOLLOW_UP_TASK_QUEUE: stack.taskQueue,
    AGENT_JOBS_BASE_URL: stack.simulator.baseUrl,
    AGENT_JOBS_API_KEY: stack.simulator.apiKey,
  };
}, 120_000);
afterAll(async () => {
  await stack.stop();
  await connection.close();
});

/** What the doctor says; each finding must say why it matters and what fixes it. */
async function doctor(more: Record<string, string> = {}, ...args: string[]) {
  const { exitCode, stdout } = await runCli(['doctor', '--json', ...args], { env: { ...env, ...more } });
  const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: Check[] };
  const findings = checks.filter(({ status }) => status === 'error' || status === 'warning');
  expect(ok).toBe(findings.length === 0);
  for (const finding of findings) expect(finding).toMatchObject({ why: expect.any(String), fix: expect.any(String) });
  return { exitCode, checks, findings };
}

const start = (projectId: string, jobId = 'job') =>
  stack.followUps.start({ projectId, jobId, prompt: 'Add tests.', ...FAST });

test('the doctor names each part of a sound installation, and ends with exit code 0', async () => {
  const { exitCode, checks } = await doctor();
  expect({ exitCode, statuses: checks.map(({ name, status }) => [name, status]) }).toEqual({
    exitCode: 0,
    statuses: [
      ['configuration', 'ok'],
      ['agent job service', 'ok'],
      ['Temporal', 'ok'],
      // Less than the documentation asks for, which is enough for a server on this machine.
      ['namespace', 'note'],
      ['search attributes', 'ok'],
      ['workers', 'ok'],
      ['workers', 'ok'],
      ['workers', 'ok'],
      ['follow-ups', 'ok'],
    ],
  });
});

test('the doctor names what is missing: the namespace, its search attributes, the workers, the settings', async () => {
  const nowhere = await doctor({ TEMPORAL_NAMESPACE: 'no-such-namespace' });
  expect(nowhere).toMatchObject({
    exitCode: 5,
    findings: [{ name: 'Temporal', fix: expect.stringContaining('namespace create --namespace no-such-namespace') }],
  });
  const TEMPORAL_NAMESPACE = await makeNamespace(connection);
  const bare = await doctor({ TEMPORAL_NAMESPACE, AGENT_JOBS_BASE_URL: '', AGENT_JOBS_API_KEY: '' });
  expect(bare).toMatchObject({
    exitCode: 2,
    findings: [
      { name: 'configuration', message: expect.stringMatching(/AGENT_JOBS_BASE_URL: .*; AGENT_JOBS_API_KEY/) },
      { name: 'search attributes', fix: 'follow-up setup' },
      { name: 'workers', fix: 'follow-up worker' },
      { name: 'workers' },
      { name: 'workers', subject: `${stack.taskQueue}-budget (workflow tasks)` },
    ],
  });
});

test.for([
  [
    'an error in a 200',
    answer(200, { error: 'session expired' }),
    'agent job service',
    /but not an agent job: session/,
  ],
  ['a refused key', answer(401, { error: 'no' }), 'API key', /HTTP 401/],
  ['a bill', answer(402, { error: 'pay' }), 'agent job service', /HTTP 402/],
] as const)('the doctor reports a service that answers with %s', async ([, text, name, message]) => {
  const peer = await startPeer({ onRequest: ({ socket }) => socket.end(text) });
  onTestFinished(() => peer.close());
  const { findings } = await doctor({ AGENT_JOBS_BASE_URL: peer.url }, '--project', 'shop');
  expect(findings).toMatchObject([{ name, subject: 'shop', message: expect.stringMatching(message) }]);
});

test('a follow-up that no worker picks up is counted as starting, and named', async () => {
  const FOLLOW_UP_TASK_QUEUE = `nobody-${randomUUID()}`;
  const { workflowId } = await new FollowUpClient({ client: stack.client, taskQueue: FOLLOW_UP_TASK_QUEUE }).start({
    ...{ projectId: 'left', jobId: 'job-1', prompt: 'x' },
  });
  onTestFinished(() =>
    stack.client.workflow
      .getHandle(workflowId)
      .terminate()
      .then(() => undefined),
  );
  const found = await eventually('it is listed', async () => {
    const { checks } = await doctor();
    return checks.some(({ message }) => message.startsWith('1 starting')) ? checks : undefined;
  });
  expect(found).toContainEqual(
    expect.objectContaining({
      subject: workflowId,
      fix: `start a worker: FOLLOW_UP_TASK_QUEUE=${FOLLOW_UP_TASK_QUEUE} follow-up worker`,
    }),
  );
});

test('the doctor accepts a service that does not know the job', async () => {
  const peer = await startPeer({ onRequest: ({ socket }) => socket.end(answer(404, { error: 'not found' })) });
  onTestFinished(() => peer.close());
  const { findings } = await doctor({ AGENT_JOBS_BASE_URL: peer.url }, '--project', 'shop');
  expect(findings).toEqual([]);
});

test('a budget that is paused, a batch that is held and a job that cannot be read are findings until they are mended', async () => {
  const { followUps, simulator } = stack;
  const find = async (subject: string) => (await doctor()).findings.find((finding) => finding.subject === subject);
  await followUps.budget('frozen').pause({ note: 'release freeze' });
  await start('frozen');
  expect(await eventually('the pause is found', () => find('frozen'))).toMatchObject({
    name: 'budget',
    status: 'warning',
    message: expect.stringMatching(
      /project frozen is paused: by an operator .* \(release freeze\); follow-ups that wait: \d$/,
    ),
    since: expect.stringMatching(/^\d{4}-/),
    fix: 'follow-up budget resume frozen',
  });
  await followUps.budget('frozen').resume();

  simulator.failNext({ method: 'GET', projectId: 'broken', jobId: 'job', how: { status: 500 }, times: 1_000 });
  const unread = await start('broken');
  expect(await eventually('it is found', () => find(unread.workflowId))).toMatchObject({
    name: 'follow-up',
    status: 'warning',
    message: expect.stringMatching(/cannot read its job: .*50\d/),
  });
  await unread.cancel();

  const items = ['a', 'b'].map((jobId) => ({ projectId: 'careful', jobId, prompt: 'Add tests.', ...FAST }));
  const batch = await followUps.startBatch({ id: `held-${randomUUID()}`, items, canary: 1 });
  expect(await eventually('the hold is found', () => find(batch.batchId))).toMatchObject({
    name: 'batch',
    message: expect.stringContaining('is held (canary)'),
    fix: expect.stringContaining(`follow-up batch continue ${batch.batchId}`),
  });
  await batch.continue();
  await batch.result();
  expect(await find(batch.batchId)).toBeUndefined();
});

test('a budget that was stopped is a finding until it is restored', async () => {
  const budget = stack.followUps.budget('ended');
  await budget.resume();
  await stack.client.workflow.getHandle(budget.workflowId).terminate('by hand');
  const find = async () => (await doctor()).findings.find((finding) => finding.subject === budget.workflowId);
  expect(await eventually('it is found', find)).toMatchObject({
    name: 'budget',
    status: 'error',
    fix: 'follow-up budget restore ended',
  });
  await budget.restore();
  await eventually('it is gone', async () => (await find()) === undefined);
});

/** Queries that a client has sent. */
const queries: string[] = [];
const countQueries: Interceptor = (options, nextCall) => {
  if (options.method_definition.path.endsWith('/QueryWorkflow')) queries.push(options.method_definition.path);
  return new InterceptingCall(nextCall(options));
};

test('idle budgets are listed without being asked', async () => {
  const { client, namespace, taskQueue } = stack;
  const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  const idle = Array.from({ length: 30 }, (_, index) => `idle-${index}`);
  for (const projectId of idle) {
    await client.workflow.start(WorkflowType.projectBudget, firstBudgetStart({ projectId, taskQueue, settings }));
  }
  await stack.followUps.run({ projectId: 'busy', jobId: 'job', prompt: 'Add tests.', ...FAST });
  const counted = await Connection.connect({ address: inject('temporalAddress'), interceptors: [countQueries] });
  onTestFinished(() => counted.close());
  const followUps = new FollowUpClient({ client: new Client({ connection: counted, namespace }), taskQueue });
  const listed = await eventually('all are listed', async () => {
    queries.length = 0;
    const budgets: ListedBudget[] = [];
    for await (const budget of followUps.budgets()) budgets.push(budget);
    const isBusy = budgets.some(({ projectId, status }) => projectId === 'busy' && status?.used === 1);
    const isComplete = idle.every((id) => budgets.some(({ projectId }) => projectId === id));
    return isBusy && isComplete ? budgets : undefined;
  });
  expect(queries).toHaveLength(listed.filter(({ status }) => status !== undefined).length);
  const quiet = listed.filter(({ projectId }) => idle.includes(projectId));
  for (const { projectId, ...rest } of quiet) {
    expect(rest).toEqual({ workflowId: projectBudgetWorkflowId(projectId), isNeeded: false });
  }
  const { stdout } = await runCli(['budget', 'list'], { env });
  expect(stdout).toMatch(/^idle-7 +- +- +idle$/m);
  expect(stdout).toMatch(/^busy +1 of 100 in 1 h +0 +sends: 99 of 100 slots are free$/m);
});

test('a data converter that cannot decode an answer is named, and nothing else fails', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'follow-up-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const module = join(directory, 'converter.mjs');
  await writeFile(
    module,
    `export const dataConverter = { payloadCodecs: [{
      encode: async (payloads) => payloads,
      decode: async () => { throw new Error('unknown key id k-17'); },
    }] };`,
  );
  await start('coded', 'stuck-1');
  const find = async () =>
    (await doctor({ FOLLOW_UP_DATA_CONVERTER: module })).findings.find(
      ({ subject }) => subject === projectBudgetWorkflowId('coded'),
    );
  expect(await eventually('it is found', find)).toMatchObject({
    message: expect.stringMatching(
      /its answer cannot be read: the data converter cannot decode a payload: unknown key id k-17$/,
    ),
  });
  const { exitCode, stdout } = await runCli(['budget', 'list'], { env: { ...env, FOLLOW_UP_DATA_CONVERTER: module } });
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(/^coded .*does not answer: its answer cannot be read: the data converter/m);
});
