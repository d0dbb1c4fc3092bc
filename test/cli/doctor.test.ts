import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { FollowUpClient, type ListedBudget } from '../../src/client/index.js';
import { WorkflowType } from '../../src/contract/index.js';
import { firstBudgetStart } from '../../src/protocol/index.js';
import { respond, startPeer } from '../agent-jobs/support/peer.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, startStack } from '../support/stack.js';
import { makeNamespace } from '../worker/support.js';
import { askCli, runCli } from './run-cli.js';

interface Check {
  name: string;
  subject?: string;
  status: string;
}

let connection: Connection;
let stack: Stack;
let env: Record<string, string>;
beforeAll(async () => {
  // The doctor checks a whole namespace, so other tests may leave nothing in it.
  const TEMPORAL_ADDRESS = inject('temporalAddress');
  connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
  const TEMPORAL_NAMESPACE = await makeNamespace(connection);
  const simulator = { autoCreate: true };
  stack = await startStack({ address: TEMPORAL_ADDRESS, env: { TEMPORAL_NAMESPACE }, simulator });
  const { taskQueue, simulator: service } = stack;
  env = { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, FOLLOW_UP_TASK_QUEUE: taskQueue };
  env = { ...env, AGENT_JOBS_BASE_URL: service.baseUrl, AGENT_JOBS_API_KEY: service.apiKey };
});
afterAll(async () => {
  await stack.stop();
  await connection.close();
});

/** What the doctor says; each finding must say why it matters and what fixes it. */
async function doctor(more: Record<string, string> = {}, ...args: string[]) {
  const { exitCode, document } = await askCli(['doctor', ...args], { env: { ...env, ...more } });
  const checks = document.checks as Check[];
  const findings = checks.filter(({ status }) => status === 'error' || status === 'warning');
  expect(document.ok).toBe(findings.length === 0);
  for (const finding of findings) expect(finding).toMatchObject({ why: expect.any(String), fix: expect.any(String) });
  return { exitCode, checks, findings };
}

const start = (projectId: string, jobId = 'job') =>
  stack.followUps.start({ projectId, jobId, prompt: 'Add tests.', ...FAST });

/** The setting for a service that answers every request with an error. */
async function serviceThatAnswers(status: number, error: string): Promise<Record<string, string>> {
  const peer = await startPeer({ onRequest: ({ socket }) => socket.end(respond(status, { error })) });
  onTestFinished(() => peer.close());
  return { AGENT_JOBS_BASE_URL: peer.url };
}

test('the doctor names each part of a sound installation, and ends with exit code 0', async () => {
  const { exitCode, checks } = await doctor();
  expect({ exitCode, said: checks.map(({ name, status }) => `${name}: ${status}`) }).toEqual({
    exitCode: 0,
    said: [
      ...['configuration: ok', 'agent job service: ok', 'Temporal: ok'],
      // Less than the documentation asks for, which is enough for a server on this machine.
      'namespace: note',
      ...['search attributes: ok', 'workers: ok', 'workers: ok', 'workers: ok', 'follow-ups: ok'],
    ],
  });
});

test('the doctor names what is missing: the namespace, its search attributes, the workers, the settings', async () => {
  const nowhere = await doctor({ TEMPORAL_NAMESPACE: 'no-such-namespace' });
  const fix = expect.stringContaining('namespace create --namespace no-such-namespace');
  expect(nowhere).toMatchObject({ exitCode: 5, findings: [{ name: 'Temporal', fix }] });
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

test.each<[status: number, error: string, finding: object]>([
  [200, 'expired', { name: 'agent job service', message: expect.stringContaining('not an agent job: expired') }],
  [401, 'no', { name: 'API key', message: expect.stringContaining('HTTP 401') }],
  [402, 'pay', { name: 'agent job service', message: expect.stringContaining('HTTP 402') }],
])('the doctor reports a service that answers %i with the error %j', async (status, error, finding) => {
  const { findings } = await doctor(await serviceThatAnswers(status, error), '--project', 'shop');
  expect(findings).toMatchObject([{ subject: 'shop', ...finding }]);
});

test('the doctor accepts a service that answers 404, because it may not know the job', async () => {
  const { findings } = await doctor(await serviceThatAnswers(404, 'not found'), '--project', 'shop');
  expect(findings).toEqual([]);
});

test('the doctor reports what is paused, held, stopped, without a worker or unreadable until it is fixed', async () => {
  const { followUps, simulator, client } = stack;
  await followUps.budget('frozen').pause({ note: 'release freeze' });
  const waiting = await start('frozen');
  simulator.failNext({ method: 'GET', projectId: 'broken', jobId: 'job', how: { status: 500 }, times: 1_000 });
  const unread = await start('broken');
  const items = ['a', 'b'].map((jobId) => ({ projectId: 'careful', jobId, prompt: 'Add tests.', ...FAST }));
  const batch = await followUps.startBatch({ id: `held-${randomUUID()}`, items, canary: 1 });
  const stopped = followUps.budget('ended');
  await stopped.resume();
  await client.workflow.getHandle(stopped.workflowId).terminate('by hand');
  const elsewhere = new FollowUpClient({ client, taskQueue: 'nobody' });
  const left = await elsewhere.start({ projectId: 'left', jobId: 'job', prompt: 'x' });

  const expected: Record<string, object> = {
    frozen: { name: 'budget', message: expect.stringMatching(/\(release freeze\); waiting follow-ups: 1$/) },
    [unread.workflowId]: {
      name: 'follow-up',
      message: expect.stringMatching(/the job cannot be read, or is not found: .*50\d/),
    },
    [batch.batchId]: { name: 'batch', message: expect.stringContaining('is held (canary)') },
    [stopped.workflowId]: { name: 'budget', status: 'error', fix: 'follow-up budget restore ended' },
    [left.workflowId]: { status: 'error', fix: 'start a worker: FOLLOW_UP_TASK_QUEUE=nobody follow-up worker' },
  };
  await eventually('all have come to a stop', async () => {
    const { waitReason } = await unread.progress();
    const { waitingTotal } = (await followUps.budget('frozen').status()) ?? {};
    return waitReason === 'service' && waitingTotal === 1 && (await batch.status()).hold;
  });
  // What visibility lists is late by up to a second.
  const found = await eventually('all are found', async () => {
    const now = await doctor();
    const isFound = (subject: string) => now.findings.some((finding) => finding.subject === subject);
    return Object.keys(expected).every(isFound) ? now : undefined;
  });
  expect(found.exitCode).toBe(1);
  expect(Object.fromEntries(found.findings.map((finding) => [finding.subject, finding]))).toMatchObject(expected);
  expect(found.checks).toContainEqual(expect.objectContaining({ message: expect.stringMatching(/\b1 starting\b/) }));
  const { stdout } = await runCli(['budget', 'list'], { env });
  expect(stdout).toMatch(/^frozen +0 of 100 in 1 h +1 +paused: by an operator since .* \(release freeze\)$/m);

  await client.workflow.getHandle(left.workflowId).terminate();
  await Promise.all([followUps.budget('frozen').resume(), unread.cancel(), batch.continue(), stopped.restore()]);
  await Promise.all([waiting.result(), batch.result(), unread.result().catch(() => undefined)]);
  await eventually('all are mended', async () => (await doctor()).exitCode === 0);
});

test('idle budgets are listed without a query to any of them', async () => {
  const { client, namespace, taskQueue } = stack;
  let queries = 0;
  const countQueries: Interceptor = (options, nextCall) => {
    if (options.method_definition.path.endsWith('/QueryWorkflow')) queries += 1;
    return new InterceptingCall(nextCall(options));
  };
  const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  const idle = ['idle-0', 'idle-1', 'idle-2'];
  for (const projectId of idle) {
    await client.workflow.start(WorkflowType.projectBudget, firstBudgetStart({ projectId, taskQueue, settings }));
  }
  const counted = await Connection.connect({ address: inject('temporalAddress'), interceptors: [countQueries] });
  onTestFinished(() => counted.close());
  const followUps = new FollowUpClient({ client: new Client({ connection: counted, namespace }), taskQueue });
  const listed = await eventually('all are listed', async () => {
    queries = 0;
    const budgets = new Map<string, ListedBudget>();
    for await (const budget of followUps.budgets()) budgets.set(budget.projectId, budget);
    return idle.every((projectId) => budgets.has(projectId)) ? budgets : undefined;
  });
  expect(queries).toBe([...listed.values()].filter(({ status }) => status !== undefined).length);
  for (const id of idle)
    expect(listed.get(id)).toEqual({ projectId: id, workflowId: `project-budget/${id}`, isNeeded: false });
  const { stdout } = await runCli(['budget', 'list'], { env });
  expect(stdout).toMatch(/^project +used +waiting +state\n/);
  expect(stdout).toMatch(/^idle-1 +- +- +idle$/m);
  expect(stdout).toMatch(/^careful +2 of 100 in 1 h +0 +sends: 98 of 100 slots are free$/m);
  const { documents } = await askCli(['budget', 'list'], { env });
  expect(documents.find(({ projectId }) => projectId === 'careful')).toMatchObject({ limit: 100, used: 2 });
});

test('the doctor names a data converter that cannot decode a result, and budgets are still listed', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'follow-up-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const FOLLOW_UP_DATA_CONVERTER = join(directory, 'converter.mjs');
  const decode = `async () => { throw new Error('unknown key id k-17'); }`;
  const codec = `{ encode: async (payloads) => payloads, decode: ${decode} }`;
  writeFileSync(FOLLOW_UP_DATA_CONVERTER, `export const dataConverter = { payloadCodecs: [${codec}] };`);
  await start('coded', 'stuck-1');
  const found = await eventually('it is found', async () => {
    const { findings } = await doctor({ FOLLOW_UP_DATA_CONVERTER });
    return findings.find(({ subject }) => subject === 'project-budget/coded');
  });
  const message = 'its result cannot be read: the data converter cannot decode a payload: unknown key id k-17';
  expect(found).toMatchObject({ message: expect.stringContaining(message) });
  const list = await runCli(['budget', 'list'], { env: { ...env, FOLLOW_UP_DATA_CONVERTER } });
  expect(list.exitCode).toBe(0);
  expect(list.stdout).toMatch(/^coded +\? +\? +does not answer: its result cannot be read: the data converter/m);
});
