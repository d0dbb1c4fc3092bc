import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { acts, get, send, sendUntilDeadline, useClient, usePeer, writes } from './support/harness.js';
import { respond } from './support/peer.js';

const chunk = Buffer.alloc(65_536, 'x');

test.each([
  ['of 50 MB', 'content-length: 52428800', chunk],
  ['of 50 MB in chunks', 'transfer-encoding: chunked', Buffer.from(`10000\r\n${chunk.toString()}\r\n`)],
])('a body %s is cut off', async (_what, header, piece) => {
  const pieces = Array<Buffer>(800).fill(piece);
  const peer = await usePeer(
    acts(({ socket }) => {
      socket.write(`HTTP/1.1 200 OK\r\n${header}\r\n\r\n`);
      Readable.from(pieces).pipe(socket);
    }),
  );
  const client = useClient(peer.url);
  const message = expect.stringContaining('too long') as string;
  expect(await send(client)).toMatchObject({ outcome: 'sent', message });
  expect(await get(client)).toMatchObject({ kind: 'failed', reason: 'invalid-body' });
  await eventually('both connections gone', () => peer.closed === 2);
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
  ['deep nesting', `{"id":"a","x":${'['.repeat(60_000)}${']'.repeat(60_000)}}`, '64 levels'],
  ['numbers that grow when they are written out', `{"id":"a","x":[${'1e20,'.repeat(25_000)}1]}`, '131072 bytes'],
  ['bytes that are not text', `{"id":"a","x":"${'\u00ff'.repeat(120_000)}"}`, '131072 bytes'],
])('a response within 128 KiB is no job if it has %s', async (_name, text, problem) => {
  const head = `HTTP/1.1 200 OK\r\ncontent-length: ${text.length}\r\n\r\n`;
  const peer = await usePeer(acts(({ socket }) => socket.end(head + text, 'latin1')));
  const client = useClient(peer.url);
  const message = expect.stringContaining(problem) as string;
  expect(await send(client)).toEqual({ outcome: 'sent', statusCode: 200, message });
  expect(await get(client)).toMatchObject({ reason: 'invalid-body', message });
});

test('terminal escapes and control characters are removed, and half characters replaced, in jobs and errors', async () => {
  const json =
    '{"id":"a\\u0000b","model":"\\u001b[31mred\\u001b[0m\\ud800","prLink":"https://x/\\u202e1","n\\u0007":"line\\nline"}';
  const job = { id: 'ab', model: 'red\ufffd', prLink: 'https://x/1', n: 'line\nline' };
  expect(await get(useClient((await usePeer(writes(respond(200, json)))).url))).toEqual({ kind: 'job', job });
  const error = `bad\u001b]8;;http://evil\u0007link\r\n\u009b2Jprompt\u0000 ${'é'.repeat(600)}`;
  const { message = '' } = await send(useClient((await usePeer(writes(respond(400, { error })))).url));
  expect(message).toMatch(/^HTTP 400: bad.*link prompt é+…$/);
  // eslint-disable-next-line no-control-regex -- the absence of control characters is what is asserted
  expect(message).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
  expect(message).toHaveLength(500);
});

test('a field named __proto__ changes nothing', async () => {
  const body = '{"id":"a","__proto__":{"status":"completed"},"x":{"__proto__":{"y":1}}}';
  const outcome = await get(useClient((await usePeer(writes(respond(200, body)))).url));
  expect(outcome).toEqual({ kind: 'job', job: { id: 'a', x: {} } });
});
