import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { get, JOB, send, useClient, usePeer } from './support/harness.js';
import { answer, type PeerConnection } from './support/peer.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Writes `total` bytes as fast as the other side reads them, and reports each write. */
function pour({ socket }: PeerConnection, total: number, chunk: Buffer, written: (bytes: number) => void): void {
  let left = total;
  const more = () => {
    while (left > 0 && !socket.destroyed) {
      left -= chunk.length;
      written(chunk.length);
      if (!socket.write(chunk)) {
        socket.once('drain', more);
        return;
      }
    }
  };
  more();
}

const chunk = Buffer.alloc(65_536, 'x');
const TOTAL = 50 * 1024 * 1024;

describe.each(['with a length', 'in chunks'] as const)('a body of 50 MB %s', (encoding) => {
  async function sendAndGet(): Promise<void> {
    let poured = 0;
    const peer = await usePeer({
      onRequest: (connection) => {
        const header = encoding === 'in chunks' ? 'transfer-encoding: chunked' : `content-length: ${TOTAL}`;
        connection.socket.write(`HTTP/1.1 200 OK\r\n${header}\r\n\r\n`);
        const framed = Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n')]);
        pour(connection, TOTAL, encoding === 'in chunks' ? framed : chunk, (bytes) => (poured += bytes));
      },
    });
    const client = useClient(peer.url);
    expect(await send(client)).toMatchObject({
      outcome: 'sent',
      message: expect.stringContaining('too long') as string,
    });
    expect(await get(client)).toMatchObject({ kind: 'failed', reason: 'invalid-body' });
    await eventually('both connections gone', () => peer.closed === 2);
    expect(poured).toBeLessThan(2 * TOTAL);
  }

  test('is cut off', sendAndGet);

  test('takes bounded memory', { tags: 'long' }, async () => {
    collectGarbage();
    const before = process.memoryUsage();
    await sendAndGet();
    collectGarbage();
    const after = process.memoryUsage();
    expect(after.heapUsed + after.external - before.heapUsed - before.external).toBeLessThan(16 * 1024 * 1024);
  });
});

test('a slow drip ends at the deadline: a message is sent, a read is timed out', { tags: 'long' }, async () => {
  const peer = await usePeer({
    onRequest: ({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{');
      const drip = setInterval(() => socket.write(' '), 20);
      socket.once('close', () => clearInterval(drip));
    },
  });
  const client = useClient(peer.url, { getTimeoutMs: 3_000, sendTimeoutMs: 3_000 });
  const startedAt = performance.now();
  const [sent, got] = await Promise.all([send(client), get(client)]);
  expect(performance.now() - startedAt).toBeLessThan(30_000);
  expect(sent).toMatchObject({ outcome: 'sent', statusCode: 200 });
  expect(got).toMatchObject({ kind: 'failed', reason: 'timeout', statusCode: 200 });
  await eventually('both connections gone', () => peer.closed >= 2);
});

test('a slow drip of headers ends at the deadline', async () => {
  const peer = await usePeer({
    onRequest: ({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      const drip = setInterval(() => socket.write('x'), 20);
      socket.once('close', () => clearInterval(drip));
    },
  });
  const client = useClient(peer.url, { getTimeoutMs: 3_000, sendTimeoutMs: 3_000 });
  expect((await send(client)).outcome).toBe('unknown');
  expect(await get(client)).toMatchObject({ reason: 'timeout' });
});

test('a body that claims to be compressed is not decompressed', async () => {
  const peer = await usePeer({
    onRequest: ({ socket }) => socket.end(answer(200, '\u001f\u008b\u0008', { 'content-encoding': 'gzip' })),
  });
  expect(await get(useClient(peer.url))).toMatchObject({ reason: 'invalid-body' });
});

test('a deeply nested body does not count as a job and breaks nothing', async () => {
  const nested = `{"id":"a","x":${'['.repeat(60_000)}${']'.repeat(60_000)}}`;
  const peer = await usePeer({ onRequest: ({ socket }) => socket.end(answer(200, nested)) });
  const client = useClient(peer.url);
  expect(await get(client)).toMatchObject({
    reason: 'invalid-body',
    message: expect.stringContaining('64 levels') as string,
  });
  expect(await send(client)).toMatchObject({
    outcome: 'sent',
    message: expect.stringContaining('64 levels') as string,
  });
});

test('terminal escapes and control characters are removed, and half characters replaced, in jobs and errors', async () => {
  const peer = await usePeer({
    onRequest: ({ socket }, { method }) =>
      socket.end(
        method === 'GET'
          ? answer(
              200,
              '{"id":"a\\u0000b","model":"\\u001b[31mred\\u001b[0m\\ud800","prLink":"https://x/\\u202e1","n\\u0007":"line\\nline"}',
            )
          : answer(400, { error: `bad\u001b]8;;http://evil\u0007link\r\n\u009b2Jprompt\u0000 ${'é'.repeat(600)}` }),
      ),
  });
  const client = useClient(peer.url);
  expect(await get(client)).toEqual({
    kind: 'job',
    job: { id: 'ab', model: 'red\ufffd', prLink: 'https://x/1', n: 'line\nline' },
  });
  const { message = '' } = await send(client);
  expect(message).toMatch(/^HTTP 400: bad.*link prompt é+…$/);
  // eslint-disable-next-line no-control-regex -- the absence of control characters is what is asserted
  expect(message).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
  expect(message).toHaveLength(500);
});

test.each([
  ['numbers that grow when they are written out', `[${'1e20,'.repeat(25_000)}1]`],
  ['bytes that are not text', `"${'\u00ff'.repeat(120_000)}"`],
])('a body within 128 KiB does not count as a job if it grows beyond that by %s', async (_name, extra) => {
  const peer = await usePeer({
    onRequest: ({ socket }) => {
      const body = Buffer.from(`{"id":"a","status":"completed","extra":${extra}}`, 'latin1');
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`);
      socket.end(body);
    },
  });
  const client = useClient(peer.url);
  const got = await get(client);
  const sent = await send(client);
  expect(sent.outcome).toBe('sent');
  expect(sent.job).toBeUndefined();
  expect(got).toMatchObject({ reason: 'invalid-body', message: expect.stringContaining('131072 bytes') as string });
});

test('a field named __proto__ changes nothing', async () => {
  const body = '{"id":"a","__proto__":{"status":"completed"},"x":{"__proto__":{"y":1}}}';
  const peer = await usePeer({ onRequest: ({ socket }) => socket.end(answer(200, body)) });
  const outcome = await get(useClient(peer.url));
  expect(outcome).toEqual({ kind: 'job', job: { id: 'a', x: {} } });
  expect(outcome.kind === 'job' && outcome.job.status).toBeUndefined();
});

test('an answer that comes before the request causes no second connection', async () => {
  const peer = await usePeer({
    onAccept: (raw) => {
      raw.write(answer(200, JOB));
      return true;
    },
  });
  const client = useClient(peer.url, { sendTimeoutMs: 300 });
  expect(['notSent', 'unknown', 'sent']).toContain((await send(client)).outcome);
  expect(peer.connections).toBe(1);
});
