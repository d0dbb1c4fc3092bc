import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from '@temporalio/client';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { FailureType, projectBudgetWorkflowId, SearchAttribute } from '../../src/contract/index.js';
import { type DevServer, startDevServer } from '../../src/dev-server/index.js';
import { runCli } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';
import { reaches } from '../support/project.js';
import { findSecret } from '../support/secret-search.js';
import { FAST, type Stack, startStack } from '../support/stack.js';
import { newWebhookSecret, startWebhookReceiver } from '../support/webhook-receiver.js';

/** The example that the docs refer to. */
const DATA_CONVERTER = fileURLToPath(new URL('../../examples/encryption/data-converter.js', import.meta.url));

const PROMPT = 'secret-prompt-4711';
const SECRET = newWebhookSecret();
/** The start of every link of the simulated service. */
const LINK = 'git.example/';

let directory: string;
let keysFile: string;
let server: DevServer;
let stack: Stack;
const receiver = await startWebhookReceiver(({ path }) => (path === '/gone' ? 410 : 204));
const keys: Record<string, string> = {};

/** Replaces the file of keys, as a deployment would. */
async function writeKeys(current: string): Promise<void> {
  keys[current] ??= randomBytes(32).toString('base64');
  await writeFile(`${keysFile}.new`, JSON.stringify({ current, keys }));
  await rename(`${keysFile}.new`, keysFile);
}

/** The input of a follow-up to a job that exists. */
function makeInput(projectId: string, jobId: string, { simulator }: Stack = stack) {
  simulator.addJob({ projectId, jobId });
  return { projectId, jobId, prompt: PROMPT, ...FAST };
}

const cli = (...args: string[]) =>
  runCli(args, {
    env: {
      TEMPORAL_ADDRESS: server.address,
      FOLLOW_UP_TASK_QUEUE: stack.taskQueue,
      FOLLOW_UP_DATA_CONVERTER: DATA_CONVERTER,
      ENCRYPTION_KEYS_FILE: keysFile,
    },
  });

async function databaseBytes(): Promise<Buffer> {
  const names = (await readdir(directory)).filter((name) => name.startsWith('temporal.db'));
  // SQLite may remove its journal at any time.
  const contents = names.map((name) => readFile(join(directory, name)).catch(() => Buffer.alloc(0)));
  return Buffer.concat(await Promise.all(contents));
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'encryption-'));
  keysFile = join(directory, 'keys.json');
  await writeKeys('first');
  process.env['ENCRYPTION_KEYS_FILE'] = keysFile;
  server = await startDevServer({ env: process.env, args: ['--db-filename', join(directory, 'temporal.db')] });
  stack = await startStack({
    address: server.address,
    env: {
      FOLLOW_UP_DATA_CONVERTER: DATA_CONVERTER,
      FOLLOW_UP_BUDGET_WINDOW: '10s',
      FOLLOW_UP_WEBHOOKS: JSON.stringify({
        ci: { url: receiver.url('/ci'), secrets: [SECRET] },
        gone: { url: receiver.url('/gone'), secrets: [SECRET] },
      }),
    },
  });
});

afterAll(async () => {
  await stack?.stop();
  await server?.stop();
  receiver.close();
  delete process.env['ENCRYPTION_KEYS_FILE'];
  await rm(directory, { recursive: true, force: true });
});

test('a client with the keys reads results, status, lists and failures, and no search attribute holds the link', async () => {
  const { followUps, client } = stack;
  const handle = await followUps.start(makeInput('encrypted', 'job-1'));
  expect((await handle.result()).prLink).toContain(LINK);
  const { typedSearchAttributes } = await client.workflow.getHandle(handle.workflowId).describe();
  expect(typedSearchAttributes.get(SearchAttribute.state)).toBe('completed');
  expect(typedSearchAttributes.get(SearchAttribute.prLink)).toBeUndefined();

  const missing = followUps.run({ ...makeInput('encrypted', 'job-1'), jobId: 'missing-1' });
  await expect(missing).rejects.toMatchObject({ type: FailureType.JobNotFound });
  const status = await cli('status', handle.workflowId, '--json');
  expect(status.stdout, status.stderr).toContain(LINK);
  expect((await cli('list', '--project', 'encrypted', '--json')).stdout).toContain('job-1');
});

test('a webhook reports the end without the link, and the doctor says why another was not delivered', async () => {
  const { workflowId } = await stack.followUps.start({ ...makeInput('encrypted', 'told'), notify: ['ci', 'gone'] });
  const webhook = await eventually('it is delivered', () => receiver.received.find(({ path }) => path === '/ci'));
  expect(webhook.body.data).toEqual({
    ...{ workflowId, projectId: 'encrypted', jobId: 'told' },
    ...{ state: 'completed', status: 'completed', delivered: 'yes' },
  });
  const trouble = await eventually('doctor knows', async () => (await stack.followUps.health()).troubles[0]);
  expect(trouble).toMatchObject({ kind: 'undelivered', what: 'was not delivered: gone answers HTTP 410 (attempt 1)' });
});

test('a key is rotated while a follow-up is under way', async () => {
  const { followUps } = stack;
  const handle = await followUps.start(makeInput('rotated', 'job-1'));
  await writeKeys('second');
  expect((await handle.result()).prLink).toContain(LINK);
  expect((await followUps.run(makeInput('rotated', 'job-2'))).status).toBe('completed');
  const bytes = await databaseBytes();
  expect(bytes.includes('first') && bytes.includes('second')).toBe(true);
});

test('a terminated budget is restored from its encrypted history', async () => {
  const { client, followUps } = stack;
  await client.workflow.getHandle(projectBudgetWorkflowId('encrypted')).terminate('a test');
  expect(await cli('budget', 'restore', 'encrypted')).toMatchObject({ stderr: '', exitCode: 0 });
  expect((await followUps.run(makeInput('encrypted', 'job-2'))).status).toBe('completed');
});

test('a batch and a schedule start follow-ups from encrypted items', async () => {
  const { followUps } = stack;
  const items = ['a', 'b'].map((jobId) => makeInput('batch', jobId));
  const batch = await followUps.startBatch({ id: 'encrypted', items });
  expect((await batch.result()).completed).toBe(2);
  const input = { items: [makeInput('batch', 'nightly')] };
  await followUps.schedules.create({ name: 'encrypted', cron: '0 2 * * *', input });
  await followUps.schedules.trigger('encrypted');
  await eventually('the message of the schedule', () => stack.simulator.job('batch', 'nightly')?.messages === 1);
});

test('the database holds neither the prompt nor the link, in any encoding', async () => {
  // The search finds what was not encrypted.
  const planted = 'planted-prompt-0815';
  const plain = new Client({ connection: stack.client.connection });
  await plain.workflow.start('anything', { taskQueue: 'nobody', workflowId: 'plain', args: [{ prompt: planted }] });
  const bytes = await databaseBytes();
  expect(findSecret(planted, bytes)).toContain('raw');
  expect(findSecret(PROMPT, bytes)).toEqual([]);
  expect(findSecret(LINK, bytes)).toEqual([]);
  expect(findSecret(SECRET, bytes)).toEqual([]);
});

test('a worker without the data converter fails at what it cannot read, and at nothing else', async () => {
  await stack.stopWorker();
  const plain = await startStack({ address: server.address, taskQueue: stack.taskQueue });
  onTestFinished(() => plain.stop());
  const { followUps, statusUrl } = plain;
  // An update and a query of a budget whose input this worker cannot read, in one workflow task.
  const asking = await followUps.start(makeInput('encrypted', 'unreadable', plain));
  const budget = stack.client.workflow.getHandle(projectBudgetWorkflowId('encrypted'));
  await Promise.allSettled(Array.from({ length: 5 }, () => budget.query('budgetStatus')));
  await reaches(asking, 'blocked', 'budget-silent');
  expect((await followUps.run(makeInput('plain', 'readable', plain))).status).toBe('completed');
  expect((await fetch(`${statusUrl}/readyz`)).status).toBe(200);
  await asking.cancel();
});
