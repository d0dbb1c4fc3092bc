import { describe, expect, test } from 'vitest';
import type { SendOutcome } from '../../src/contract/budget.js';
import { get, JOB, send, useClient, usePeer } from './support/harness.js';
import { answer, reset, type PeerScript } from './support/peer.js';

interface Row {
  peer: string;
  script: PeerScript;
  outcome: SendOutcome;
  /** How many complete requests reach the peer. */
  received: 0 | 1;
  message?: RegExp;
  statusCode?: number;
  sendTimeoutMs?: number;
  connectTimeoutMs?: number;
  only?: 'plain' | 'tls';
}

const status = (code: number): Row => ({
  peer: `answers ${code}`,
  script: { onRequest: ({ socket }) => socket.end(answer(code, { error: 'words' })) },
  outcome: 'unknown',
  received: 1,
  statusCode: code,
});

const rows: Row[] = [
  // Before the request starts.
  {
    peer: 'resets on accept',
    script: { onAccept: (raw) => (raw.resetAndDestroy(), false) },
    outcome: 'notSent',
    received: 0,
    only: 'tls',
  },
  {
    peer: 'closes in the TLS handshake',
    script: { onAccept: (raw) => (raw.once('data', () => raw.end()), false) },
    outcome: 'notSent',
    received: 0,
    only: 'tls',
  },
  {
    peer: 'resets in the TLS handshake',
    script: { onAccept: (raw) => (raw.once('data', () => raw.resetAndDestroy()), false) },
    outcome: 'notSent',
    received: 0,
    only: 'tls',
  },
  {
    peer: 'stalls in the TLS handshake',
    script: { onAccept: () => false },
    outcome: 'notSent',
    received: 0,
    only: 'tls',
    connectTimeoutMs: 200,
    message: /not connected within 200 ms/,
  },
  {
    peer: 'stalls in the TLS handshake beyond the deadline',
    script: { onAccept: () => false },
    outcome: 'notSent',
    received: 0,
    only: 'tls',
    sendTimeoutMs: 200,
    message: /deadline of 200 ms/,
  },
  {
    peer: 'does not speak TLS',
    script: { onAccept: (raw) => (raw.once('data', () => raw.write('HTTP/1.1 400 Bad Request\r\n\r\n')), false) },
    outcome: 'notSent',
    received: 0,
    only: 'tls',
    message: /TLS/,
  },
  {
    peer: 'has a certificate for another host',
    script: { certificate: 'other-host' },
    outcome: 'notSent',
    received: 0,
    only: 'tls',
    message: /another host name/,
  },
  {
    peer: 'has an expired certificate',
    script: { certificate: 'expired' },
    outcome: 'notSent',
    received: 0,
    only: 'tls',
    message: /expired/,
  },
  // After the request starts, without a final status line.
  {
    peer: 'reads all, closes without an answer',
    script: { onRequest: ({ socket }) => socket.end() },
    outcome: 'unknown',
    received: 1,
  },
  {
    peer: 'closes at once, reads nothing',
    script: { onAccept: (raw) => (raw.end(), false) },
    outcome: 'unknown',
    received: 0,
    only: 'plain',
  },
  { peer: 'reads all, resets', script: { onRequest: reset }, outcome: 'unknown', received: 1 },
  {
    peer: 'reads all, stays silent',
    script: {},
    outcome: 'unknown',
    received: 1,
    sendTimeoutMs: 3_000,
    message: /deadline of 3000 ms/,
  },
  {
    peer: 'never reads',
    script: { onAccept: (raw) => (raw.pause(), false) },
    outcome: 'unknown',
    received: 0,
    only: 'plain',
    sendTimeoutMs: 3_000,
  },
  {
    peer: 'sends half a status line',
    script: { onRequest: ({ socket }) => socket.end('HTTP/1.1 20') },
    outcome: 'unknown',
    received: 1,
  },
  {
    peer: 'sends a status line and half the headers',
    script: { onRequest: ({ socket }) => socket.end('HTTP/1.1 200 OK\r\nconte') },
    outcome: 'unknown',
    received: 1,
  },
  {
    peer: 'sends 100 and closes',
    script: { onRequest: ({ socket }) => socket.end('HTTP/1.1 100 Continue\r\n\r\n') },
    outcome: 'unknown',
    received: 1,
  },
  {
    peer: 'sends 100 unasked, then 200',
    script: { onRequest: ({ socket }) => socket.end(`HTTP/1.1 100 Continue\r\n\r\n${answer(200, JOB)}`) },
    outcome: 'sent',
    received: 1,
  },
  {
    peer: 'sends garbage',
    script: { onRequest: ({ socket }) => socket.end('\u0001\u0002 garbage\r\n\r\n') },
    outcome: 'unknown',
    received: 1,
  },
  {
    peer: 'sends a header of 70 KB',
    script: { onRequest: ({ socket }) => socket.end(answer(200, JOB, { 'x-long': 'x'.repeat(70_000) })) },
    outcome: 'unknown',
    received: 1,
  },
  {
    peer: 'switches protocols',
    script: {
      onRequest: ({ socket }) =>
        socket.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
    },
    outcome: 'unknown',
    received: 1,
  },
  // After a 2xx status line.
  {
    peer: 'answers 200',
    script: { onRequest: ({ socket }) => socket.end(answer(200, JOB)) },
    outcome: 'sent',
    received: 1,
    statusCode: 200,
  },
  {
    peer: 'answers 103, then 200',
    script: { onRequest: ({ socket }) => socket.end(`HTTP/1.1 103 Early Hints\r\n\r\n${answer(200, JOB)}`) },
    outcome: 'sent',
    received: 1,
    statusCode: 200,
  },
  {
    peer: 'answers 202 with nothing',
    script: { onRequest: ({ socket }) => socket.end(answer(202, '')) },
    outcome: 'sent',
    received: 1,
    statusCode: 202,
    message: /empty/,
  },
  {
    peer: 'answers 200, the body stalls',
    script: { onRequest: ({ socket }) => socket.write(answer(200, '{', { 'content-length': '9' })) },
    outcome: 'sent',
    received: 1,
    statusCode: 200,
    sendTimeoutMs: 3_000,
    message: /body was lost.*deadline/,
  },
  {
    peer: 'answers 200, resets in the body',
    script: {
      onRequest: (connection) =>
        connection.socket.write(answer(200, '{', { 'content-length': '9' }), () =>
          setImmediate(() => reset(connection)),
        ),
    },
    outcome: 'sent',
    received: 1,
    statusCode: 200,
    message: /body was lost/,
  },
  {
    peer: 'answers 200, closes in the body',
    script: { onRequest: ({ socket }) => socket.end(answer(200, '{', { 'content-length': '9' })) },
    outcome: 'sent',
    received: 1,
    statusCode: 200,
    message: /body was lost/,
  },
  {
    peer: 'answers 200, the body is too long',
    script: { onRequest: ({ socket }) => socket.end(answer(200, { id: 'x'.repeat(140_000) })) },
    outcome: 'sent',
    received: 1,
    statusCode: 200,
    message: /too long/,
  },
  {
    peer: 'answers 200 with HTML',
    script: { onRequest: ({ socket }) => socket.end(answer(200, '<html>')) },
    outcome: 'sent',
    received: 1,
    statusCode: 200,
    message: /not JSON/,
  },
  {
    peer: 'answers 200 with wrong types',
    script: { onRequest: ({ socket }) => socket.end(answer(200, { status: 7 })) },
    outcome: 'sent',
    received: 1,
    statusCode: 200,
    message: /not an agent job: status/,
  },
  // Other status lines.
  ...[400, 404, 405, 410, 413, 415, 422, 451].map((code) => ({
    ...status(code),
    outcome: 'rejected' as const,
    message: /: words$/,
  })),
  ...[401, 403].map((code) => ({ ...status(code), outcome: 'unauthorized' as const, message: /: words$/ })),
  { ...status(402), outcome: 'payment', message: /: words$/ },
  { ...status(429), outcome: 'limited' },
  ...[300, 301, 302, 303, 304, 307, 308, 408, 409, 425, 500, 501, 502, 503, 504, 599].map(status),
  {
    peer: 'answers 400, the body is lost',
    script: { onRequest: ({ socket }) => socket.end(answer(400, '{', { 'content-length': '9' })) },
    outcome: 'rejected',
    received: 1,
    statusCode: 400,
    message: /^HTTP 400$/,
  },
];

for (const secure of [false, true]) {
  describe(`over ${secure ? 'TLS' : 'plain TCP'}, a message to a peer that`, () => {
    const cases = rows.filter(({ only }) => only === undefined || (only === 'tls') === secure);
    test.for(cases)('$peer is $outcome', async (row) => {
      const peer = await usePeer({ ...row.script, secure });
      const client = useClient(peer.url, {
        ...(row.sendTimeoutMs !== undefined && { sendTimeoutMs: row.sendTimeoutMs }),
        ...(row.connectTimeoutMs !== undefined && { connectTimeoutMs: row.connectTimeoutMs }),
      });
      const result = await send(client);
      expect(result).toMatchObject({
        outcome: row.outcome,
        ...(row.statusCode !== undefined && { statusCode: row.statusCode }),
      });
      if (row.message) expect(result.message).toMatch(row.message);
      if (result.outcome !== 'sent') expect(result.message).not.toBe('');
      await client.close();
      expect(peer.connections).toBe(1);
      expect(peer.requests).toHaveLength(row.received);
    });
  });
}

test('a closed port, an unknown host and an untrusted certificate prove that nothing was sent', async () => {
  expect(await send(useClient('http://127.0.0.1:1'))).toEqual({
    outcome: 'notSent',
    message: expect.stringMatching(/^nothing was sent: .*ECONNREFUSED.*AGENT_JOBS_BASE_URL/) as string,
  });
  expect((await send(useClient('http://no-such-host.invalid'))).outcome).toBe('notSent');

  const peer = await usePeer({ secure: true });
  const untrusting = await send(useClient(peer.url, { ca: undefined }));
  expect(untrusting.outcome).toBe('notSent');
  expect(untrusting.message).toMatch(/UNABLE_TO_VERIFY_LEAF_SIGNATURE.*NODE_EXTRA_CA_CERTS/);
  expect(peer.bytes).toBe(0);
});

test('a reset on accept over plain TCP is notSent or unknown, depending on whether it comes before the start', async () => {
  const peer = await usePeer({ onAccept: (raw) => (raw.resetAndDestroy(), false) });
  const client = useClient(peer.url);
  for (let round = 0; round < 50; round++) expect(['notSent', 'unknown']).toContain((await send(client)).outcome);
  expect(peer.requests).toHaveLength(0);
});

test('an accepted message returns the job, and has the form that the service expects', async () => {
  const peer = await usePeer({ onRequest: ({ socket }) => socket.end(answer(200, { ...JOB, later: { field: 1 } })) });
  const result = await useClient(`${peer.url}/prefix/`).sendMessage({
    projectId: 'p',
    jobId: 'j',
    prompt: 'Ünïcode "quoted" \ud83d\ude80',
    mayStart: () => true,
  });
  expect(result).toEqual({ outcome: 'sent', statusCode: 200, job: { ...JOB, later: { field: 1 } } });
  const [request] = peer.requests;
  expect(request).toMatchObject({ method: 'POST', path: '/prefix/v2/agent/p/job/j/message' });
  expect(JSON.parse(request?.body ?? '')).toEqual({ prompt: 'Ünïcode "quoted" \ud83d\ude80' });
  expect(request?.headers.get('content-type')).toBe('application/json');
  expect(request?.headers.get('authorization')).toMatch(/^Bearer adm_/);
  expect(request?.headers.get('accept-encoding')).toBe('identity');
});

test('without a usable API key nothing is sent, and the outcome is notSent, because another worker may have one', async () => {
  const peer = await usePeer();
  for (const forProject of [
    () => Promise.resolve(undefined),
    () => Promise.resolve('line\nbreak-in-the-key'),
    () => Promise.reject(new Error('adm_secret')),
  ]) {
    const client = useClient(peer.url, { keys: { forProject } });
    const sent = await send(client);
    expect(sent).toEqual({ outcome: 'notSent', message: expect.stringContaining('project-1') as string });
    expect(sent.message).not.toContain('adm_secret');
    expect(await get(client)).toMatchObject({ kind: 'failed', reason: 'no-key' });
  }
  expect(peer.connections).toBe(0);
});

test('ids that are not allowed in a path never make a request', async () => {
  const peer = await usePeer();
  const client = useClient(peer.url);
  for (const jobId of ['..', 'a/../b', '%2e%2e', 'a?b', 'a#b', 'a b', '', 'a\r\nb', 'a..b', 'x'.repeat(129)]) {
    const sent = await client.sendMessage({ projectId: 'p', jobId, prompt: 'x', mayStart: () => true });
    expect(sent).toMatchObject({ outcome: 'rejected', message: expect.stringMatching(/jobId: must/) as string });
    expect(await client.getJob({ projectId: 'p', jobId })).toMatchObject({ kind: 'failed', reason: 'rejected' });
    expect(await client.getJob({ projectId: jobId, jobId: 'j' })).toMatchObject({ kind: 'failed', reason: 'rejected' });
  }
  expect(peer.connections).toBe(0);
});
