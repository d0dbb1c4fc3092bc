import { expect, test } from 'vitest';
import { createAgentJobsClient, type GetJobFailureReason } from '../../src/agent-jobs/index.js';
import { eventually } from '../support/eventually.js';
import { get, JOB, send, useClient, usePeer } from './support/harness.js';
import { answer, reset, type PeerScript } from './support/peer.js';

const failing: {
  peer: string;
  script: PeerScript;
  expected: { reason: GetJobFailureReason; statusCode?: number; message?: string; retryAfterMs?: number };
  getTimeoutMs?: number;
}[] = [
  {
    peer: 'answers 401',
    script: replying(401),
    expected: { reason: 'unauthorized', statusCode: 401, message: 'HTTP 401: words' },
  },
  { peer: 'answers 403', script: replying(403), expected: { reason: 'unauthorized', statusCode: 403 } },
  {
    peer: 'answers 402',
    script: replying(402),
    expected: { reason: 'payment', statusCode: 402, message: 'HTTP 402: words' },
  },
  {
    peer: 'answers 429',
    script: replying(429, { 'retry-after': '7' }),
    expected: { reason: 'limited', retryAfterMs: 7_000 },
  },
  {
    peer: 'answers 503 with Retry-After',
    script: replying(503, { 'retry-after': '2' }),
    expected: { reason: 'service', retryAfterMs: 2_000 },
  },
  { peer: 'answers 400', script: replying(400), expected: { reason: 'rejected', statusCode: 400 } },
  { peer: 'answers 408', script: replying(408), expected: { reason: 'service', statusCode: 408 } },
  { peer: 'answers 302', script: replying(302), expected: { reason: 'service', statusCode: 302 } },
  {
    peer: 'answers 200 with HTML',
    script: writing(answer(200, '<html>')),
    expected: { reason: 'invalid-body', message: 'HTTP 200, but the body is not JSON' },
  },
  { peer: 'answers 200 with a list', script: writing(answer(200, [])), expected: { reason: 'invalid-body' } },
  { peer: 'answers 200 with null', script: writing(answer(200, 'null')), expected: { reason: 'invalid-body' } },
  {
    peer: 'answers 200 with wrong types',
    script: writing(answer(200, { source: { repository: 1 } })),
    expected: { reason: 'invalid-body', message: expect.stringContaining('source.repository') as string },
  },
  { peer: 'answers 204', script: writing('HTTP/1.1 204 No Content\r\n\r\n'), expected: { reason: 'invalid-body' } },
  {
    peer: 'closes in the body',
    script: writing(answer(200, '{', { 'content-length': '9' })),
    expected: { reason: 'network', statusCode: 200 },
  },
  { peer: 'closes without an answer', script: writing(''), expected: { reason: 'network' } },
  { peer: 'resets', script: { onRequest: reset }, expected: { reason: 'network' } },
  { peer: 'sends garbage', script: writing('garbage\r\n\r\n'), expected: { reason: 'network' } },
  {
    peer: 'stays silent',
    script: {},
    getTimeoutMs: 3_000,
    expected: { reason: 'timeout', message: 'no answer: the deadline of 3000 ms has passed' },
  },
  {
    peer: 'never finishes the TLS handshake',
    script: { secure: true, onAccept: () => false },
    getTimeoutMs: 150,
    expected: { reason: 'timeout' },
  },
  {
    peer: 'has a certificate for another host',
    script: { secure: true, certificate: 'other-host' },
    expected: { reason: 'network', message: expect.stringContaining('another host name') as string },
  },
];

test.for(failing)('a read from a peer that $peer fails with its reason', async ({ script, expected, getTimeoutMs }) => {
  const peer = await usePeer(script);
  const outcome = await get(useClient(peer.url, { ...(getTimeoutMs !== undefined && { getTimeoutMs }) }));
  expect(outcome).toMatchObject({ kind: 'failed', ...expected });
  expect(peer.requests.length).toBeLessThanOrEqual(1);
});

test('a closed port fails with a hint about the setting', async () => {
  const outcome = await get(useClient('http://127.0.0.1:1'));
  expect(outcome).toMatchObject({
    reason: 'network',
    message: expect.stringMatching(/ECONNREFUSED.*AGENT_JOBS_BASE_URL/) as string,
  });
});

test('a 404 is notFound with the text of the service, if there is any', async () => {
  const peer = await usePeer({
    onRequest: ({ socket }) => socket.end(answer(404, peer.requests.length === 1 ? { error: 'no such job' } : '')),
  });
  const client = useClient(peer.url);
  expect(await get(client)).toEqual({ kind: 'notFound', message: 'HTTP 404: no such job' });
  expect(await get(client)).toEqual({ kind: 'notFound', message: 'HTTP 404' });
});

test('a job is returned whole, with unknown fields and an unknown status', async () => {
  const job = {
    ...JOB,
    status: 'paused',
    source: { repository: 'https://git.example/r', ref: null },
    later: [{ x: 1 }],
  };
  const peer = await usePeer({ onRequest: ({ socket }) => socket.end(answer(200, job)) });
  expect(await get(useClient(`${peer.url}/base`))).toEqual({ kind: 'job', job });
  expect(peer.requests[0]).toMatchObject({ method: 'GET', path: '/base/v2/agent/project-1/job/job-1', body: '' });
});

test.each(['', ' ', '\t'])('a link that is %j counts as none', async (prLink) => {
  const peer = await usePeer({ onRequest: ({ socket }) => socket.end(answer(200, { ...JOB, prLink })) });
  expect(await get(useClient(peer.url))).toMatchObject({ kind: 'job', job: { id: JOB.id, prLink: null } });
});

test('a job is returned even if its id differs from the requested one', async () => {
  const peer = await usePeer({ onRequest: ({ socket }) => socket.end(answer(200, { id: 'another' })) });
  expect(await get(useClient(peer.url))).toEqual({ kind: 'job', job: { id: 'another' } });
});

test('reads share connections; a message between them has its own', async () => {
  const peer = await usePeer({ onRequest: ({ socket }) => socket.write(answer(200, JOB)) });
  const client = useClient(peer.url);
  for (let reads = 0; reads < 20; reads++) expect((await get(client)).kind).toBe('job');
  const readConnections = peer.connections;
  expect(readConnections).toBeLessThanOrEqual(3);
  expect((await send(client)).outcome).toBe('sent');
  expect(peer.connections).toBe(readConnections + 1);
  expect((await get(client)).kind).toBe('job');
  expect(peer.connections).toBe(readConnections + 1);
});

test('reads and messages work over TLS, by host name and by address', async () => {
  const peer = await usePeer({ secure: true, onRequest: ({ socket }) => socket.write(answer(200, JOB)) });
  for (const url of [peer.url, peer.url.replace('localhost', '127.0.0.1')]) {
    const client = useClient(url);
    expect((await get(client)).kind).toBe('job');
    expect((await send(client)).outcome).toBe('sent');
  }
});

test(
  '100 reads of a silent service all end at their deadline and leave no connection behind',
  { tags: 'long' },
  async () => {
    const peer = await usePeer();
    const client = useClient(peer.url, { getTimeoutMs: 300 });
    const startedAt = performance.now();
    const outcomes = await Promise.all(Array.from({ length: 100 }, () => get(client)));
    expect(outcomes.every((outcome) => outcome.kind === 'failed' && outcome.reason === 'timeout')).toBe(true);
    expect(performance.now() - startedAt).toBeLessThan(30_000);
    await eventually('all connections gone', () => peer.closed === peer.connections);
  },
);

test.for([
  ['ftp://api.example', 'http'],
  ['not a url', 'must be a URL'],
  ['https://user:pass-word@api.example', 'user name'],
  ['https://api.example?x=1', 'query'],
  ['https://api.example/#x', 'fragment'],
])('the base URL %s is refused', ([baseUrl = '', rule = '']) => {
  const create = () =>
    createAgentJobsClient({
      baseUrl,
      keys: { forProject: () => Promise.resolve('x') },
      getTimeoutMs: 1,
      sendTimeoutMs: 1,
    });
  expect(create).toThrow(/^baseUrl: must/);
  expect(create).toThrow(rule);
  expect(create).not.toThrow('pass-word');
});

test.for([0, -1, 1.5, NaN, 2 ** 31])('a deadline of %d ms is refused', (timeoutMs) => {
  expect(() => useClient('https://api.example', { sendTimeoutMs: timeoutMs })).toThrow(/^sendTimeoutMs: must be/);
});

function replying(status: number, headers: Record<string, string> = {}): PeerScript {
  return writing(answer(status, { error: 'words' }, headers));
}

function writing(bytes: string): PeerScript {
  return { onRequest: ({ socket }) => socket.end(bytes) };
}
