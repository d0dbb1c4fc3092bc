import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type DevServer, startDevServer } from '../../src/dev-server/index.js';
import { runCli } from '../cli/run-cli.js';
import { type EchoService, startEchoService } from '../support/echo-service.js';
import { eventually } from '../support/eventually.js';
import { findSecret, spellingsOf, textsHeldBy, textsIn } from '../support/secret-search.js';
import { FAST, type Stack, startStack } from '../support/stack.js';

/** It has every character that some encoding changes. */
const CANARY = 'canary/+="%&<key>\'\\4711';
/** A similar secret, put where the search must find it. */
const PLANTED = 'planted/+="%&<key>\'\\0815';

const CODES = [400, 401, 402, 403, 404, 429, 500];
const JOBS = [
  'ok',
  'gone',
  ...CODES.flatMap((code) => [`get-${code}`, `post-${code}`]),
  'poll-401',
  'poll-429',
  'poll-500',
];

let directory: string;
let server: DevServer;
let service: EchoService;
let stack: Stack;
/** Everything that was written, by the place where it was written. */
const places = new Map<string, string | Buffer>();
let dbFiles: [name: string, bytes: Buffer][] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'canary-'));
  server = await startDevServer({ env: process.env, args: ['--db-filename', join(directory, 'temporal.db')] });
  service = await startEchoService();
  const worker = {
    AGENT_JOBS_BASE_URL: service.baseUrl,
    AGENT_JOBS_API_KEY: CANARY,
    FOLLOW_UP_BUDGET_WINDOW: '10s',
    FOLLOW_UP_LOG_LEVEL: 'trace',
  };
  stack = await startStack({ address: server.address, env: worker });
  await runEverything(worker);
  await stack.stop();
  places.set('log after the stop', stack.log());
  await service.close();
  await server.stop();
  dbFiles = await Promise.all(
    (await readdir(directory)).map(async (name) => [name, await readFile(join(directory, name))] as [string, Buffer]),
  );
  for (const [name, bytes] of dbFiles) places.set(`database file ${name}`, bytes);
});
afterAll(async () => {
  await server.stop();
  await rm(directory, { recursive: true, force: true });
});

async function runEverything(worker: Record<string, string>): Promise<void> {
  const { followUps, client } = stack;
  const handles = await Promise.all(
    JOBS.map((jobId) =>
      // One project for each, because a 401 or 429 pauses the whole project.
      followUps.start({
        projectId: `canary-${jobId}`,
        jobId,
        prompt: 'hello',
        key: 'k',
        ...FAST,
        budgetWaitTimeout: '40s',
      }),
    ),
  );
  await Promise.all(
    handles.map(async (handle) => {
      const end: unknown = await handle.result().catch((error: unknown) => error);
      // Errors have parts that JSON leaves out.
      places.set(`end of ${handle.workflowId}`, `${textsHeldBy(end).join('\n')} ${JSON.stringify(end)}`);
    }),
  );

  for (const handle of handles) {
    const progress = await eventually('its progress is known', () => handle.progress());
    places.set(`progress of ${handle.workflowId}`, textsHeldBy(progress).join('\n'));
  }

  const env = { TEMPORAL_ADDRESS: server.address, FOLLOW_UP_TASK_QUEUE: stack.taskQueue, ...worker };
  const commands = [
    ['send', 'canary-cli', 'ok-cli', '--prompt', 'hello', '--poll-initial-interval', '200ms', '--settle-time', '2s'],
    ['send', 'canary-cli', 'post-400', '--prompt', 'hello'],
    ['status', 'follow-up/canary-ok/ok/k'],
    ['status', 'follow-up/canary-post-400/post-400/k'],
    ['list'],
    ['doctor', '--project', 'canary-cli', '--job', 'ok'],
    ['doctor', '--project', 'canary-cli', '--job', 'gone'],
    ['doctor', '--project', 'canary-cli', '--job', 'get-403'],
    ['budget', 'show', 'canary-post-401'],
    ['budget', 'audit', 'canary-post-429'],
  ];
  for (const json of [[], ['--json']]) {
    for (const command of json.length === 0 ? commands : commands.filter(([name]) => name !== 'doctor')) {
      // A job answers with its code only for the first two reads.
      const fresh = command.map((part, index) =>
        index === 2 || part.startsWith('get-') ? unusedJob(part, json.length) : part,
      );
      const { stdout, stderr } = await runCli([...fresh, ...json], { env });
      places.set(`output of ${[...fresh, ...json].join(' ')}`, `${stdout}\n${stderr}`);
    }
  }

  const planted = await client.workflow.start('followUp', {
    taskQueue: 'nobody-polls-this',
    workflowId: 'follow-up/planted/job/k',
    args: [{ projectId: 'planted', jobId: 'job', prompt: Object.values(spellingsOf(PLANTED)).join(' ') }],
    memo: { planted: PLANTED },
  });
  await planted.terminate(PLANTED);

  await eventually('every follow-up is listed as ended', async () => {
    let running = 0;
    for await (const each of client.workflow.list())
      if (each.status.name === 'RUNNING' && each.type === 'followUp') running += 1;
    return running === 0;
  });
  for await (const listed of client.workflow.list()) {
    places.set(
      `visibility of ${listed.workflowId}`,
      `${textsHeldBy(listed).join('\n')}\n${textsIn(listed).join('\n')}`,
    );
    const handle = client.workflow.getHandle(listed.workflowId, listed.runId);
    const history = await handle.fetchHistory();
    places.set(`history of ${listed.workflowId}`, historyToJSON(history));
    places.set(`payloads of ${listed.workflowId}`, textsIn(history).join('\n'));
    places.set(`description of ${listed.workflowId}`, textsIn((await handle.describe()).raw).join('\n'));
  }
  places.set('metrics', await (await fetch(`${stack.statusUrl}/metrics`)).text());
}

/** The job of a command, new for each run. */
function unusedJob(part: string, run: number): string {
  return /^(get|post)-\d+$/.test(part) ? `${part}-cli${run}` : part;
}

test('the service answers reads and messages with every status code, and echoes the key', () => {
  for (const code of CODES) {
    expect([...service.answers.keys()]).toContain(`GET ${code}`);
    expect([...service.answers.keys()]).toContain(`POST ${code}`);
  }
  const masked = [...places]
    .filter(([, text]) => text.includes('[masked]'))
    .map(([name]) => name.replace(/ of .*/, ''));
  for (const kind of ['end', 'history', 'payloads', 'output', 'database file temporal.db'])
    expect(masked, kind).toContain(kind);
});

test('the search finds a key that was put into an input, a memo and a reason, in every encoding', () => {
  const plantedIn = (kind: RegExp) =>
    new Set([...places].filter(([name]) => kind.test(name)).flatMap(([, text]) => findSecret(PLANTED, text)));
  const every = Object.keys(spellingsOf(PLANTED));
  expect([...plantedIn(/^payloads of follow-up\/planted/)].sort()).toEqual([...every].sort());
  // In the JSON of a history, a payload is base64.
  expect([...plantedIn(/^history of follow-up\/planted/)].join()).toMatch(/JSON-escaped,.*base64 of JSON-escaped/);
  expect([...plantedIn(/^database file/)].sort()).toEqual([...every].sort());
  expect([...plantedIn(/^visibility of follow-up\/planted/)].length).toBeGreaterThan(0);
  const basic = `Authorization: Basic ${Buffer.from(`x:${CANARY}`).toString('base64')}`;
  expect(findSecret(CANARY, basic)).toContain('base64 of raw after 2 bytes');
});

test('no history, visibility record, log, metric, failure, output or database file holds the API key in any encoding', () => {
  const hits = [...places].flatMap(([name, text]) =>
    findSecret(CANARY, text).map((spelling) => `${spelling} in ${name}`),
  );
  expect(hits).toEqual([]);
  // The places are not empty.
  expect(places.get('log after the stop')?.length).toBeGreaterThan(10_000);
  expect(places.get('metrics')).toContain('temporal_');
  expect(dbFiles.reduce((bytes, [, { length }]) => bytes + length, 0)).toBeGreaterThan(1_000_000);
  expect([...places.keys()].filter((name) => name.startsWith('history of follow-up/')).length).toBeGreaterThan(
    JOBS.length,
  );
  expect([...places.keys()].filter((name) => name.startsWith('history of project-budget/')).length).toBeGreaterThan(5);
});
