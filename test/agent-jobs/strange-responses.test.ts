import { describe, expect, test } from 'vitest';
import { acts, API_KEY, get, JOB, send, useClient, usePeer, writes } from './support/harness.js';
import { type PeerConnection, respond } from './support/peer.js';

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
const containing = (text: string) => expect.stringMatching(new RegExp(text, 's')) as string;

/** What a service answers to every request, and what that means for a read and for a message. */
type Row = [name: string, bytes: string, read: object, sent: object];

const job = (name: string, shown: object = JOB, bytes = respond(200, shown)): Row => [
  name,
  bytes,
  { kind: 'job', job: shown },
  { outcome: 'sent', job: shown },
];
/** A body that was read and is no job proves nothing of a message, and its text is kept. */
const noJob = (name: string, body: unknown, text: string, outcome = 'unknown'): Row => {
  const message = containing(text);
  const read = { kind: 'failed', reason: 'invalid-body', message };
  return [name, respond(200, body), read, { outcome, statusCode: 200, message: containing('^HTTP 200') }];
};
/** A body that could not be read. */
const unread = (name: string, body: unknown, text: string, headers = {}): Row => {
  const message = containing(text);
  return [name, respond(200, body, headers), { reason: 'invalid-body', message }, { outcome: 'sent', message }];
};
const redirect = (name: string, status: number, headers: Record<string, string>, text: string): Row => {
  const common = { statusCode: status, message: containing(`HTTP ${status}.*${text}`) };
  const bytes = respond(status, '', headers);
  return [name, bytes, { kind: 'failed', reason: 'service', ...common }, { outcome: 'unknown', ...common }];
};
const noLink = (name: string, prLink: string): Row =>
  job(name, { ...JOB, prLink: null }, respond(200, { ...JOB, prLink }));
const gzip = '\u001f\u008b\u0008';
const inGzip = containing('^HTTP 500: its body has the content encoding gzip');
const password = 'https://user:word@git.example/in';

const rows: Row[] = [
  job('a 100 that was not asked for', JOB, CONTINUE + respond(200, JOB)),
  job('two 100 with headers', JOB, CONTINUE.replace('\r\n\r\n', '\r\nx: y\r\n\r\n').repeat(2) + respond(200, JOB)),
  job(
    '103, 100 and 102',
    JOB,
    `HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n${CONTINUE}HTTP/1.1 102 Processing\r\n\r\n${respond(200, JOB)}`,
  ),
  [
    'a 100 before a refusal',
    CONTINUE + respond(400, { error: 'no such thing' }),
    { reason: 'rejected', statusCode: 400 },
    { outcome: 'rejected', statusCode: 400, message: 'HTTP 400: no such thing' },
  ],
  redirect('a redirect to another path', 307, { location: '/v3/in' }, 'redirect to /v3/in, which is not followed'),
  redirect(
    'a redirect with a query',
    302,
    { location: 'https://login.example/?next=%2Fv2' },
    'to https://login.example/, w',
  ),
  redirect(
    'a redirect with the key in it',
    301,
    { location: `/${encodeURIComponent(API_KEY)}` },
    'to /\\[masked\\], which',
  ),
  redirect('a redirect with a token in it', 303, { location: '/in?token=0123456789#456' }, 'to /in, which'),
  redirect('a redirect with a password in it', 302, { location: password }, 'to https://git.example/in, which'),
  redirect('a redirect without a scheme', 302, { location: password.slice(6) }, 'to //git.example/in, which'),
  redirect('a redirect to a very long path', 302, { location: `/${'x'.repeat(5_000)}` }, 'to /x{198}…, which'),
  redirect('a redirect without a location', 308, {}, 'a redirect, which'),
  [
    'a 304, which is no redirect',
    respond(304, '', { location: '/in' }),
    { kind: 'failed', reason: 'service', statusCode: 304, message: 'HTTP 304' },
    { outcome: 'unknown', statusCode: 304, message: 'HTTP 304' },
  ],
  unread('a gzip body', gzip, 'content encoding gzip.*not requested', { 'content-encoding': 'gzip' }),
  unread('a brotli body', gzip, 'content encoding BR', { 'content-encoding': 'BR' }),
  unread('an encoding with the key in it', gzip, 'content encoding x{30} \\[masked\\], which', {
    'content-encoding': `${'x'.repeat(30)} ${API_KEY}`,
  }),
  [
    'an error in gzip',
    respond(500, gzip, { 'content-encoding': 'gzip' }),
    { reason: 'service', message: inGzip },
    { outcome: 'unknown', message: inGzip },
  ],
  job('a body that says that it is not encoded', JOB, respond(200, JOB, { 'content-encoding': 'identity' })),
  noJob('an error with status 200', { error: 'session expired' }, 'not an agent job: session expired'),
  noJob('an error with an id of its own', { error: 'denied', id: 'req-1' }, 'denied'),
  noJob('an error object with an id of its own', { error: { message: 'denied' }, id: 'req-1' }, 'not an agent job'),
  noJob('an error with a status that no job has', { error: 'denied', status: 'error' }, 'not an agent job: denied'),
  noJob('an error with a numeric status', { error: 'denied', status: 500 }, 'not an agent job'),
  noJob(
    'an error in the JSend format',
    { status: 'error', message: 'the agent is busy' },
    'nor a status that jobs have',
  ),
  noJob('a response with a numeric status', { status: 503, message: 'busy' }, 'not an agent job: status'),
  noJob('a field of a job with another type', { source: 'firewall', message: 'blocked' }, 'not an agent job: source'),
  noJob('an error with the status of a job', { error: 'denied', status: 'failed' }, 'not an agent job: denied'),
  noJob('an empty object', {}, 'neither an id nor a status'),
  noJob('an object about something else', { ok: true, data: JOB }, 'neither an id nor a status'),
  noJob('a list of jobs', [JOB], 'not an agent job'),
  noJob('null', 'null', 'not an agent job'),
  unread('a wrong type within a job', { id: 'job-1', source: { repository: 1 } }, 'source.repository'),
  noJob('an HTML page', '<html>Sign in</html>', 'not JSON'),
  job('a job without an id', { status: 'active' }),
  unread('a job without an id and a status', { model: 'm', prLink: null }, 'neither an id nor a status that jobs have'),
  job('a job without a status', { id: 'job-1', model: 'm' }),
  job('a job with an error in it', { id: 'job-1', status: 'failed', error: 'out of memory' }),
  noLink('an empty link', ''),
  noLink('a link of white space', ' \t'),
  job('a known status in capitals', { ...JOB, status: 'COMPLETED' }),
];

test.each(rows)(
  '%s means the same for a message and for every read of one connection',
  async (...[, bytes, read, sent]) => {
    const peer = await usePeer(acts(({ socket }) => socket.write(bytes)));
    const client = useClient(peer.url);
    expect(await send(client)).toMatchObject(sent);
    expect(peer.requests).toHaveLength(1);
    for (const got of [await get(client), await get(client)]) expect(got).toEqual(expect.objectContaining(read));
  },
);

const interim: [string, string[]][] = [
  ['a 100 in single bytes', CONTINUE.split('')],
  ['a 103 in two pieces with a 100 behind it', ['HTTP/1.1 103 Early Hints\r\nli', `nk: </x>\r\n\r\n${CONTINUE}`]],
  ['a 100 that ends within its last line', [CONTINUE.slice(0, -1), `\n${CONTINUE.slice(0, 10)}`, CONTINUE.slice(10)]],
  ['a hundred 100 in pieces of 7 bytes', CONTINUE.repeat(100).match(/[^]{1,7}/g) ?? []],
];

describe.each([
  ['plain TCP', false],
  ['TLS', true],
])('over %s', (_transport, secure) => {
  test.each(interim)('%s before each response is skipped', async (_name, before) => {
    const script = acts((connection) => writeInPieces(connection, [...before, respond(200, JOB)]));
    const peer = await usePeer({ ...script, secure });
    const client = useClient(peer.url);
    expect(await send(client)).toMatchObject({ outcome: 'sent', job: JOB });
    for (const got of [await get(client), await get(client)]) expect(got).toEqual({ kind: 'job', job: JOB });
    expect(peer.requests).toHaveLength(3);
  });
});

test('a body of which a piece looks like an interim response stays as it is', async () => {
  const whole = respond(400, `begin ${CONTINUE}end`);
  const at = whole.indexOf('HTTP/1.1 100');
  const peer = await usePeer(
    acts((connection) => writeInPieces(connection, [CONTINUE, whole.slice(0, at), whole.slice(at)])),
  );
  const client = useClient(peer.url);
  const message = 'HTTP 400: begin HTTP/1.1 100 Continue end';
  expect(await send(client)).toMatchObject({ outcome: 'rejected', message });
  expect(await get(client)).toMatchObject({ reason: 'rejected', message });
});

test.each([
  ['an interim response alone', CONTINUE],
  ['half an interim response', CONTINUE.slice(0, 15)],
  ['an interim response with 100 KB of headers', `HTTP/1.1 103 Early Hints\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`],
])('%s leaves open whether the message was delivered', async (_name, bytes) => {
  const peer = await usePeer(writes(bytes));
  const client = useClient(peer.url);
  expect(await send(client)).toMatchObject({ outcome: 'unknown' });
  expect(await get(client)).toMatchObject({ kind: 'failed', reason: 'network' });
  expect(peer.requests).toHaveLength(2);
});

/** Writes pieces that arrive one by one. */
async function writeInPieces({ socket }: PeerConnection, pieces: readonly string[]): Promise<void> {
  for (const piece of pieces) {
    await new Promise((resolve) => socket.write(piece, resolve));
    await new Promise(setImmediate);
  }
}
