import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { startSimulator } from '../../src/simulator/index.js';
import { call, get, post, start } from './service.js';

describe('reading a job', () => {
  test('returns the fields of the interface', async () => {
    const simulator = await start();
    const { status, json } = await get(simulator);
    expect(status).toBe(200);
    expect(json).toEqual({
      id: 'job-1',
      status: 'completed',
      source: { repository: 'https://git.example/p1/job-1', ref: 'main' },
      model: 'simulated-agent-1',
      prLink: 'https://git.example/p1/job-1/pull/1',
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/) as unknown,
      archivedAt: null,
    });
  });

  test('answers 404 for an unknown job, and for missing-… even with autoCreate', async () => {
    expect((await get(await start({ autoCreate: false }))).json).toEqual({ error: 'agent job not found' });
    expect((await get(await start(), 'missing-1')).status).toBe(404);
  });

  test('answers 401 to a bad key, to the key of another project, and without a key', async () => {
    const simulator = await start({ apiKeys: { p2: 'key-of-p2' } });
    expect((await get(simulator, 'job-1', 'p1', 'wrong')).status).toBe(401);
    expect((await get(simulator, 'job-1', 'p1', 'key-of-p2')).status).toBe(401);
    expect((await get(simulator, 'job-1', 'p2', 'key-of-p2')).status).toBe(200);
    expect((await call(simulator, 'GET', '/v2/agent/p1/job/job-1', {})).status).toBe(401);
  });

  test('answers 404 to an id that would lead elsewhere', async () => {
    const simulator = await start();
    const headers = { authorization: `Bearer ${simulator.apiKey}` };
    expect((await call(simulator, 'GET', '/v2/agent/p1/job/%2e%2e', headers)).status).toBe(404);
    expect((await call(simulator, 'GET', '/v2/agent/p1/job/a%2Fb', headers)).status).toBe(404);
    expect((await call(simulator, 'GET', '/elsewhere', headers)).status).toBe(404);
    expect(simulator.gets).toBe(0);
  });
});

describe('sending a message', () => {
  test('returns the job without its status, makes it active, and completes it with a new link', async () => {
    const simulator = await start();
    await get(simulator);
    const { status, json } = await post(simulator);
    expect(status).toBe(200);
    expect(Object.keys(json).sort()).toEqual(['archivedAt', 'createdAt', 'id', 'model', 'prLink', 'source']);
    await expect
      .poll(async () => (await get(simulator)).json)
      .toMatchObject({ status: 'completed', prLink: 'https://git.example/p1/job-1/pull/2' });
    expect(simulator.job('p1', 'job-1')).toMatchObject({ messages: 1 });
  });

  test('returns the status if asked to', async () => {
    expect((await post(await start({ statusInPostAnswer: true }))).json).toMatchObject({ status: 'active' });
  });

  test.each([
    ['an empty prompt', { prompt: '' }, 400],
    ['a bad key', { key: 'wrong' }, 401],
    ['an unknown job', { jobId: 'missing-1' }, 404],
    ['an archived job', { jobId: 'archived-1' }, 400],
  ])('refuses %s with an error body and records it as not accepted', async (_, message, status) => {
    const simulator = await start();
    const reply = await post(simulator, message);
    expect(reply.status).toBe(status);
    expect(reply.json).toEqual({ error: expect.any(String) as unknown });
    expect(simulator.ledger).toMatchObject([{ accepted: false, status }]);
  });

  test('refuses a body that is not a JSON object with a prompt', async () => {
    const simulator = await start();
    const headers = { authorization: `Bearer ${simulator.apiKey}`, 'content-type': 'application/json' };
    const path = '/v2/agent/p1/job/job-1/message';
    for (const body of ['', '{', 'null', '{"prompt":7}', '{"prompts":"x"}']) {
      expect((await call(simulator, 'POST', path, headers, body)).status).toBe(400);
    }
    expect((await call(simulator, 'POST', path, { ...headers, 'content-type': 'text/plain' }, '{}')).status).toBe(400);
    expect(simulator.ledger.filter(({ accepted }) => accepted)).toEqual([]);
  });

  test.each([
    ['fail-1', { status: 'failed' }],
    ['archive-1', { status: 'archived', archivedAt: expect.any(String) as unknown }],
    ['nopr-1', { status: 'completed', prLink: null }],
    ['same-1', { status: 'completed', prLink: 'https://git.example/p1/same-1/pull/1' }],
  ])('ends the turn of %s as its name says', async (jobId, end) => {
    const simulator = await start();
    expect((await post(simulator, { jobId })).status).toBe(200);
    await expect.poll(() => simulator.job('p1', jobId)).toMatchObject(end);
  });

  test('shows slow-…, stuck-… and active-… as active', async () => {
    const simulator = await start({ turn: { minMs: 1_000, maxMs: 1_000 } });
    await post(simulator, { jobId: 'slow-1' });
    await post(simulator, { jobId: 'stuck-1' });
    for (const jobId of ['slow-1', 'stuck-1', 'active-1']) {
      expect((await get(simulator, jobId)).json).toMatchObject({ status: 'active', prLink: null });
    }
  });

  test('shows the old turn for the length of the stale window', async () => {
    const simulator = await start({ staleWindowMs: 60_000 });
    const before = (await get(simulator)).json;
    await post(simulator);
    await expect.poll(() => simulator.job('p1', 'job-1')?.prLink).toMatch(/pull\/2$/);
    expect((await get(simulator)).json).toEqual(before);
  });

  test('answers 429 over the limit, separately for each project, and does not count refused messages', async () => {
    const simulator = await start({ limiter: { kind: 'sliding', limit: 2, windowMs: 3_600_000 } });
    const statuses = [await post(simulator), await post(simulator), await post(simulator)].map((reply) => reply.status);
    expect(statuses).toEqual([200, 200, 429]);
    expect((await post(simulator, { projectId: 'p2' })).status).toBe(200);
    expect(simulator.ledger[2]).toMatchObject({ accepted: false, countedAtMs: null, status: 429 });
    expect(simulator.maxInAnyWindow('p1', 3_600_000)).toBe(2);
  });

  test('gives Retry-After in the chosen form', async () => {
    const [none, seconds, date] = await Promise.all(
      (['none', 'seconds', 'date'] as const).map(async (retryAfter) => {
        const simulator = await start({ limiter: { kind: 'sliding', limit: 1, windowMs: 3_600_000 }, retryAfter });
        await post(simulator);
        return (await post(simulator)).headers['retry-after'];
      }),
    );
    expect(none).toBeUndefined();
    expect(Number(seconds)).toBeGreaterThan(3_000);
    expect(Date.parse(String(date))).toBeGreaterThan(Date.now() + 3_000_000);
    expect(Date.parse(String(date))).toBeLessThan(Date.now() + 3_601_000);
  });

  test('answers 429 below the limit if others spend the budget', { tags: 'long' }, async () => {
    const simulator = await start({ limiter: { kind: 'sliding', limit: 4, windowMs: 400 }, outsider: { share: 1 } });
    await expect.poll(async () => (await post(simulator)).status, { interval: 120 }).toBe(429);
    expect(simulator.maxInAnyWindow('p1', 400)).toBeLessThan(4);
  });
});

describe('the ledger', () => {
  test('is on disk when the answer arrives, with one line of JSON for each message', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'ledger-'));
    try {
      const ledgerFile = join(directory, 'ledger.jsonl');
      const simulator = await start({ ledgerFile });
      for (let count = 1; count <= 5; count++) {
        await post(simulator, { prompt: `message ${count}` });
        const lines = (await readFile(ledgerFile, 'utf8')).trimEnd().split('\n');
        expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(simulator.ledger);
        expect(lines).toHaveLength(count);
      }
      await Promise.all(Array.from({ length: 60 }, (_, index) => post(simulator, { jobId: `job-${index}` })));
      await simulator.close();
      const lines = (await readFile(ledgerFile, 'utf8')).trimEnd().split('\n');
      expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(simulator.ledger);
      expect(lines).toHaveLength(65);
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  test('leaves out a request that did not arrive whole', async () => {
    const simulator = await start();
    const socket = connect(simulator.port, '127.0.0.1');
    socket.write(
      `POST /v2/agent/p1/job/job-1/message HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${simulator.apiKey}\r\n` +
        'content-type: application/json\r\ncontent-length: 50\r\n\r\n{"prompt":',
    );
    socket.end();
    await once(socket.resume(), 'close');
    await post(simulator, { jobId: 'job-2' });
    expect(simulator.ledger).toMatchObject([{ jobId: 'job-2', prompt: 'go on' }]);
  });
});

describe('the server', () => {
  test('holds a thousand connections at once', async () => {
    const simulator = await start();
    const request = `GET /v2/agent/p1/job/job-1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${simulator.apiKey}\r\nconnection: close\r\n\r\n`;
    const sockets = Array.from({ length: 1_000 }, () => connect(simulator.port, '127.0.0.1'));
    const replies = sockets.map(
      (socket) =>
        new Promise<string>((resolve, reject) => {
          let reply = '';
          socket.on('data', (data) => (reply += data.toString()));
          socket.on('error', reject);
          socket.on('close', () => resolve(reply));
        }),
    );
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    for (const socket of sockets) socket.write(request);
    const all = await Promise.all(replies);
    expect(all.filter((reply) => reply.startsWith('HTTP/1.1 200 '))).toHaveLength(1_000);
  });

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

  test('says that its port is in use', async () => {
    const { port } = await start();
    await expect(startSimulator({ port })).rejects.toThrow(`EADDRINUSE: address already in use 127.0.0.1:${port}`);
  });

  test('names every bad option', async () => {
    const bad = { port: 70_000, turn: { minMs: 5, maxMs: 1 }, typo: 1 };
    await expect(startSimulator(bad)).rejects.toThrow(
      /port: .*turn: minMs must not be above maxMs.*typo: unknown field/,
    );
  });
});
