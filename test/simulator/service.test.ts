import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startSimulator } from '../../src/simulator/index.js';
import { call, get, post, start } from './service.js';

const hourly = (limit: number) => ({ limiter: { limit, windowMs: 3_600_000 } });

describe('reading a job', () => {
  test('returns the fields of the interface', async () => {
    const { status, json } = await get(await start());
    expect(status).toBe(200);
    expect(json).toEqual({
      ...{ id: 'job-1', status: 'completed', model: 'simulated-agent-1', archivedAt: null },
      source: { repository: 'https://git.example/p1/job-1', ref: 'main' },
      prLink: 'https://git.example/p1/job-1/pull/1',
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
    });
  });

  test('answers 404 for an unknown job, for missing-… despite autoCreate, and for an id that changes the path', async () => {
    expect((await get(await start({ autoCreate: false }))).json).toEqual({ error: 'agent job not found' });
    const simulator = await start();
    expect((await get(simulator, 'missing-1')).status).toBe(404);
    const headers = { authorization: `Bearer ${simulator.apiKey}` };
    for (const path of ['/v2/agent/p1/job/%2e%2e', '/v2/agent/p1/job/a%2Fb', '/elsewhere']) {
      expect((await call(simulator, 'GET', path, headers)).status).toBe(404);
    }
    expect(simulator.gets).toBe(1);
  });

  test('answers 401 to a bad key, to the key of another project, and without a key', async () => {
    const simulator = await start({ apiKeys: { p2: 'key-of-p2' } });
    expect((await get(simulator, 'job-1', 'p1', 'wrong')).status).toBe(401);
    expect((await get(simulator, 'job-1', 'p1', 'key-of-p2')).status).toBe(401);
    expect((await get(simulator, 'job-1', 'p2', 'key-of-p2')).status).toBe(200);
    expect((await call(simulator, 'GET', '/v2/agent/p1/job/job-1', {})).status).toBe(401);
  });
});

describe('sending a message', () => {
  test('returns the job without its status, makes it active, and completes it with a new link', async () => {
    const simulator = await start();
    const { status, json } = await post(simulator);
    expect(status).toBe(200);
    expect(Object.keys(json).sort()).toEqual(['archivedAt', 'createdAt', 'id', 'model', 'prLink', 'source']);
    const completed = { status: 'completed', prLink: 'https://git.example/p1/job-1/pull/2' };
    await expect.poll(async () => (await get(simulator)).json).toMatchObject(completed);
    expect(simulator.job('p1', 'job-1')).toMatchObject({ messages: 1 });
    expect((await post(await start({ statusInPostResponse: true }))).json).toMatchObject({ status: 'active' });
  });

  test.each([
    ['an empty prompt', { prompt: '' }, 400],
    ['a bad key', { key: 'wrong' }, 401],
    ['an unknown job', { jobId: 'missing-1' }, 404],
    ['an archived job', { jobId: 'archived-1' }, 400],
  ])('refuses %s with an error body and records it as not accepted', async (_, message, status) => {
    const simulator = await start();
    expect(await post(simulator, message)).toMatchObject({ status, json: { error: expect.any(String) } });
    expect(simulator.ledger).toMatchObject([{ accepted: false, status }]);
  });

  test('refuses a body that is not a JSON object with a prompt', async () => {
    const simulator = await start();
    const headers = { authorization: `Bearer ${simulator.apiKey}`, 'content-type': 'application/json' };
    const refused = async (more: object, body: string) => {
      const { status } = await call(simulator, 'POST', '/v2/agent/p1/job/job-1/message', { ...headers, ...more }, body);
      expect(status).toBe(400);
    };
    for (const body of ['', '{', 'null', '{"prompt":7}', '{"prompts":"x"}']) await refused({}, body);
    await refused({ 'content-type': 'text/plain' }, '{"prompt":"x"}');
    expect(simulator.ledger.filter(({ accepted }) => accepted)).toEqual([]);
  });

  test.each([
    ['fail-1', { status: 'failed' }],
    ['archive-1', { status: 'archived', archivedAt: expect.any(String) }],
    ['nopr-1', { status: 'completed', prLink: null }],
    ['same-1', { status: 'completed', prLink: 'https://git.example/p1/same-1/pull/1' }],
    ['stuck-1', { status: 'active', prLink: null }],
  ])('ends the turn of %s as its name says', async (jobId, end) => {
    const simulator = await start();
    expect((await post(simulator, { jobId })).status).toBe(200);
    await expect.poll(() => simulator.job('p1', jobId)).toMatchObject(end);
  });

  test('answers 429 over the limit, separately for each project, and does not count refused messages', async () => {
    const simulator = await start(hourly(2));
    const statuses = [await post(simulator), await post(simulator), await post(simulator)].map(({ status }) => status);
    expect(statuses).toEqual([200, 200, 429]);
    expect((await post(simulator, { projectId: 'p2' })).status).toBe(200);
    expect(simulator.ledger[2]).toMatchObject({ accepted: false, countedAtMs: null, status: 429 });
    expect(simulator.maxInAnyWindow('p1', 3_600_000)).toBe(2);
  });

  test.each([
    ['none', /^undefined$/],
    ['seconds', /^3[56]\d\d$/],
    ['date', /^\w{3}, .* GMT$/],
  ] as const)('gives Retry-After in the form %s', async (retryAfter, form) => {
    const simulator = await start({ ...hourly(1), retryAfter });
    await post(simulator);
    expect(String((await post(simulator)).headers['retry-after'])).toMatch(form);
  });
});

describe('the ledger', () => {
  test('is in its file when the response arrives, with one line of JSON for each message', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'ledger-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const ledgerFile = join(directory, 'ledger.jsonl');
    const simulator = await start({ ledgerFile });
    const lines = async () => (await readFile(ledgerFile, 'utf8')).trimEnd().split('\n');
    const isInFile = async () => expect(await lines()).toEqual(simulator.ledger.map((entry) => JSON.stringify(entry)));
    for (let count = 1; count <= 5; count++) {
      await post(simulator);
      await isInFile();
    }
    await Promise.all(Array.from({ length: 60 }, (_, index) => post(simulator, { jobId: `job-${index}` })));
    await simulator.close();
    await isInFile();
    expect(simulator.ledger).toHaveLength(65);
  });

  test('leaves out a request that did not arrive whole', async () => {
    const simulator = await start();
    const socket = connect(simulator.port, '127.0.0.1');
    const headers = `host: x\r\nauthorization: Bearer ${simulator.apiKey}\r\ncontent-type: application/json\r\n`;
    socket.end(`POST /v2/agent/p1/job/job-1/message HTTP/1.1\r\n${headers}content-length: 50\r\n\r\n{"prompt":`);
    await once(socket.resume(), 'close');
    await post(simulator, { jobId: 'job-2' });
    expect(simulator.ledger).toMatchObject([{ jobId: 'job-2', prompt: 'go on' }]);
  });
});

describe('the server', () => {
  test('ends every connection when it closes, even those that wait', async () => {
    const simulator = await start();
    simulator.failNext({ method: 'GET', how: 'hang' });
    simulator.failNext({ method: 'POST', when: 'after', how: { dripMs: 60_000 } });
    const ends = [get(simulator), post(simulator)].map((reply) => reply.then(String, String));
    await expect.poll(() => simulator.gets + simulator.ledger.length).toBe(2);
    await simulator.close();
    for (const end of await Promise.all(ends)) expect(end).toMatch(/^\w*Error: /);
    await expect(get(simulator)).rejects.toThrow('ECONNREFUSED');
  });

  test('takes other options while it runs, and none of them if one is bad', async () => {
    const simulator = await start();
    simulator.update({ apiKey: 'new-key' });
    expect((await get(simulator, 'job-1', 'p1', 'simulated-admin-key')).status).toBe(401);
    expect(() => simulator.update({ apiKey: 'newer-key', staleWindowMs: -1 })).toThrow(/staleWindowMs: .*given -1/);
    expect((await get(simulator, 'job-1', 'p1', 'new-key')).status).toBe(200);
  });

  test('says that its port is in use, and names every bad option', async () => {
    const { port } = await start();
    await expect(startSimulator({ port })).rejects.toThrow(`EADDRINUSE: address already in use 127.0.0.1:${port}`);
    const bad = { port: 70_000, turn: { minMs: 5, maxMs: 1 }, typo: 1 };
    const problems = /port: .*turn: minMs must not be above maxMs.*typo: unknown field/;
    await expect(startSimulator(bad)).rejects.toThrow(problems);
  });
});
