import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { acts, get, send, sendUntilDeadline, useClient, usePeer, writes } from './support/harness.js';
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

describe.each([
  ['with a length', `content-length: ${TOTAL}`, chunk],
  ['in chunks', 'transfer-encoding: chunked', Buffer.concat([Buffer.from('10000\r\n'), chunk, Buffer.from('\r\n')])],
])('a body of 50 MB %s', (_encoding, header, framed) => {
  async function sendAndGet(): Promise<void> {
    let poured = 0;
    const pours = (connection: PeerConnection) => {
      connection.socket.write(`HTTP/1.1 200 OK\r\n${header}\r\n\r\n`);
      pour(connection, TOTAL, framed, (bytes) => (poured += bytes));
    };
    const peer = await usePeer(acts(pours));
    const client = useClient(peer.url);
    const message = expect.stringContaining('too long') as string;
    expect(await send(client)).toMatchObject({ outcome: 'sent', message });
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

test.each([
  ['of headers', 'HTTP/1.1 200 OK\r\nx: ', 'unknown'],
  ['of a body', 'HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{', 'sent'],
])('a slow drip %s ends at the deadline', async (_what, start, outcome) => {
  const peer = await usePeer(
    acts(({ socket }) => {
      socket.write(start);
      const drip = setInterval(() => socket.write(' '), 20);
      socket.once('close', () => clearInterval(drip));
    }),
  );
  const client = useClient(peer.url, { getTimeoutMs: 150 });
  expect(await sendUntilDeadline(client, () => peer.requests.length === 1)).toMatchObject({ outcome });
  expect(await get(client)).toMatchObject({ kind: 'failed', reason: 'timeout' });
  await eventually('all connections gone', () => peer.closed === peer.connections);
});

test.each([
  ['a deeply nested body', `{"id":"a","x":${'['.repeat(60_000)}${']'.repeat(60_000)}}`, '64 levels'],
  ['numbers that grow when they are written out', `{"id":"a","x":[${'1e20,'.repeat(25_000)}1]}`, '131072 bytes'],
  ['bytes that are not text', `{"id":"a","x":"${'\u00ff'.repeat(120_000)}"}`, '131072 bytes'],
])('%s within 128 KiB are no job', async (_name, text, problem) => {
  const body = Buffer.from(text, 'latin1');
  const peer = await usePeer(
    acts(({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`);
      socket.end(body);
    }),
  );
  const client = useClient(peer.url);
  const message = expect.stringContaining(problem) as string;
  const { job, ...sent } = await send(client);
  expect(sent).toMatchObject({ outcome: 'sent', message });
  expect(job).toBeUndefined();
  expect(await get(client)).toMatchObject({ reason: 'invalid-body', message });
});

test('terminal escapes and control characters are removed, and half characters replaced, in jobs and errors', async () => {
  const json =
    '{"id":"a\\u0000b","model":"\\u001b[31mred\\u001b[0m\\ud800","prLink":"https://x/\\u202e1","n\\u0007":"line\\nline"}';
  const job = { id: 'ab', model: 'red\ufffd', prLink: 'https://x/1', n: 'line\nline' };
  expect(await get(useClient((await usePeer(writes(answer(200, json)))).url))).toEqual({ kind: 'job', job });
  const error = `bad\u001b]8;;http://evil\u0007link\r\n\u009b2Jprompt\u0000 ${'é'.repeat(600)}`;
  const { message = '' } = await send(useClient((await usePeer(writes(answer(400, { error })))).url));
  expect(message).toMatch(/^HTTP 400: bad.*link prompt é+…$/);
  // eslint-disable-next-line no-control-regex -- the absence of control characters is what is asserted
  expect(message).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
  expect(message).toHaveLength(500);
});

test('a field named __proto__ changes nothing', async () => {
  const body = '{"id":"a","__proto__":{"status":"completed"},"x":{"__proto__":{"y":1}}}';
  const outcome = await get(useClient((await usePeer(writes(answer(200, body)))).url));
  expect(outcome).toEqual({ kind: 'job', job: { id: 'a', x: {} } });
  expect(outcome.kind === 'job' && outcome.job.status).toBeUndefined();
});
