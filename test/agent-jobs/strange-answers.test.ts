import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseHttpDate } from '../../src/agent-jobs/outcomes.js';
import { API_KEY, get, JOB, send, useClient, usePeer } from './support/harness.js';
import { answer, type PeerConnection } from './support/peer.js';

const containing = (...parts: string[]) => expect.stringMatching(new RegExp(parts.join('.*'), 's')) as string;

/** What a service answers to every request, and what that means. */
interface Row {
  bytes: string;
  read: object;
  sent: object;
}

const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
const isJob = { read: { kind: 'job', job: JOB }, sent: { outcome: 'sent', job: JOB } };
const noJob = (...parts: string[]) => ({
  read: { kind: 'failed', reason: 'invalid-body', message: containing(...parts) },
  sent: { outcome: 'sent', message: containing(...parts) },
});
const redirect = (status: number, location: string, ...parts: string[]): Row => ({
  bytes: answer(status, '', { location }),
  read: { kind: 'failed', reason: 'service', statusCode: status, message: containing(`${status}`, ...parts) },
  sent: { outcome: 'unknown', statusCode: status, message: containing(`${status}`, ...parts) },
});
const encoded = (status: number, encoding: string) =>
  answer(status, '\u001f\u008b\u0008', { 'content-encoding': encoding });
const withLink = (prLink: unknown): Row => ({
  bytes: answer(200, { ...JOB, prLink }),
  read: { kind: 'job', job: { ...JOB, prLink: null } },
  sent: { outcome: 'sent', job: { ...JOB, prLink: null } },
});
const withStatus = (status: string): Row => ({
  bytes: answer(200, { ...JOB, status }),
  read: { kind: 'job', job: { ...JOB, status } },
  sent: { outcome: 'sent', job: { ...JOB, status } },
});

const rows: Record<string, Row> = {
  'a 100 that was not asked for': { bytes: CONTINUE + answer(200, JOB), ...isJob },
  'two 100 with headers': {
    bytes: `${CONTINUE.replace('\r\n\r\n', '\r\nx: y\r\n\r\n').repeat(2)}${answer(200, JOB)}`,
    ...isJob,
  },
  '103, 100 and 102': {
    bytes: `HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n${CONTINUE}HTTP/1.1 102 Processing\r\n\r\n${answer(200, JOB)}`,
    ...isJob,
  },
  'a 100 before a refusal': {
    bytes: CONTINUE + answer(400, { error: 'no such thing' }),
    read: { reason: 'rejected', statusCode: 400 },
    sent: { outcome: 'rejected', statusCode: 400, message: 'HTTP 400: no such thing' },
  },
  'a redirect to another path': redirect(307, '/v3/elsewhere', 'redirect to /v3/elsewhere, which is not followed'),
  'a redirect to a page for signing in': redirect(
    302,
    'https://login.example/?next=%2Fv2',
    'to https://login.example/, which',
  ),
  'a redirect with the key in it': redirect(301, `/${encodeURIComponent(API_KEY)}`, 'to /\\[masked\\], which'),
  'a redirect with a token in it': redirect(303, '/in?token=0123456789#456', 'to /in, which'),
  'a redirect with a user name and a password in it': redirect(
    302,
    'https://user:word@git.example/in',
    'to https://git.example/in, which',
  ),
  'a redirect with a user name and no scheme': redirect(
    302,
    '//user:word@git.example/in',
    'to //git.example/in, which',
  ),
  'a redirect with a password of a thousand characters': redirect(
    302,
    `https://user:${'x'.repeat(1_000)}@git.example/in`,
    'to https://git.example/in, which',
  ),
  'a redirect to a very long path': redirect(302, `/${'x'.repeat(5_000)}`, 'to /x{198}…, which'),
  'a redirect without a location': { ...redirect(308, '', 'a redirect, which'), bytes: answer(308, '') },
  'a gzip body': { bytes: encoded(200, 'gzip'), ...noJob('content encoding gzip', 'not requested') },
  'a brotli body': { bytes: encoded(200, 'BR'), ...noJob('content encoding BR') },
  'an error in gzip': {
    bytes: encoded(500, 'gzip'),
    read: { reason: 'service', message: containing('^HTTP 500: its body has the content encoding gzip') },
    sent: { outcome: 'unknown', message: containing('^HTTP 500: its body has the content encoding gzip') },
  },
  'an encoding with the key in it': {
    bytes: encoded(200, `${'x'.repeat(30)} ${API_KEY}`),
    ...noJob('content encoding x{30} \\[masked\\], which'),
  },
  'a body that says that it is not encoded': { bytes: answer(200, JOB, { 'content-encoding': 'identity' }), ...isJob },
  'an error with status 200': {
    bytes: answer(200, { error: 'session expired' }),
    ...noJob('not an agent job: session expired'),
  },
  'an error with an id of its own': { bytes: answer(200, { error: 'denied', id: 'req-1' }), ...noJob('denied') },
  'an error with a status of its own': {
    bytes: answer(200, { error: 'session expired', status: 'error' }),
    ...noJob('not an agent job: session expired'),
  },
  'an empty object': { bytes: answer(200, {}), ...noJob('neither an id nor a status') },
  'an object about something else': {
    bytes: answer(200, { ok: true, data: JOB }),
    ...noJob('neither an id nor a status'),
  },
  'a list of jobs': { bytes: answer(200, [JOB]), ...noJob('not an agent job') },
  'a page': { bytes: answer(200, '<html>Sign in</html>'), ...noJob('not JSON') },
  'nothing with 200': { bytes: answer(200, ''), ...noJob('empty') },
  'a job without an id': {
    bytes: answer(200, { status: 'active' }),
    read: { kind: 'job', job: { status: 'active' } },
    sent: { outcome: 'sent', job: { status: 'active' } },
  },
  'a job without a status': {
    bytes: answer(200, { id: 'job-1', model: 'm' }),
    read: { kind: 'job', job: { id: 'job-1', model: 'm' } },
    sent: { outcome: 'sent', job: { id: 'job-1', model: 'm' } },
  },
  'a job with an error in it': {
    bytes: answer(200, { id: 'job-1', status: 'failed', error: 'out of memory' }),
    read: { kind: 'job', job: { id: 'job-1', status: 'failed', error: 'out of memory' } },
    sent: { outcome: 'sent', job: { status: 'failed' } },
  },
  'an empty link': withLink(''),
  'a link of white space': withLink(' \t'),
  'an unknown status': withStatus('paused'),
  'a known status in capitals': withStatus('COMPLETED'),
};

describe.each(Object.entries(rows))('%s', (_name, { bytes, read, sent }) => {
  test('means the same at every read of one connection', async () => {
    const peer = await usePeer({ onRequest: ({ socket }) => socket.write(bytes) });
    const client = useClient(peer.url);
    expect([await get(client), await get(client)]).toEqual(
      [read, read].map((one) => expect.objectContaining(one) as object),
    );
  });

  test('means the same after a message, of which nothing is sent twice', async () => {
    const peer = await usePeer({ onRequest: ({ socket }) => socket.write(bytes) });
    expect(await send(useClient(peer.url))).toMatchObject(sent);
    expect(peer.requests).toHaveLength(1);
  });
});

const interim: Record<string, string[]> = {
  'a 100 in single bytes': CONTINUE.split(''),
  'a 103 in two pieces with a 100 behind it': ['HTTP/1.1 103 Early Hints\r\nli', `nk: </x>\r\n\r\n${CONTINUE}`],
  'a 100 that ends within its last line': [CONTINUE.slice(0, -1), `\n${CONTINUE.slice(0, 10)}`, CONTINUE.slice(10)],
  'a hundred 100 in pieces of 7 bytes': CONTINUE.repeat(100).match(/[^]{1,7}/g) ?? [],
};

describe.each([false, true])('over TLS: %s', (secure) => {
  test.each(Object.entries(interim))('%s is skipped, before each answer', async (_name, before) => {
    const peer = await usePeer({
      secure,
      onRequest: (connection) => void writeInPieces(connection, [...before, answer(200, JOB)]),
    });
    const client = useClient(peer.url);
    expect(await send(client)).toMatchObject(isJob.sent);
    expect([await get(client), await get(client)]).toEqual([isJob.read, isJob.read]);
    expect(peer.requests).toHaveLength(3);
  });
});

test('a body of which a piece looks like an interim answer stays as it is', async () => {
  const whole = answer(400, `begin ${CONTINUE}end`);
  const at = whole.indexOf('HTTP/1.1 100');
  const peer = await usePeer({
    onRequest: (connection) => void writeInPieces(connection, [CONTINUE, whole.slice(0, at), whole.slice(at)]),
  });
  const client = useClient(peer.url);
  const message = 'HTTP 400: begin HTTP/1.1 100 Continue end';
  expect(await send(client)).toMatchObject({ outcome: 'rejected', message });
  expect(await get(client)).toMatchObject({ reason: 'rejected', message });
});

test.each([
  ['an interim answer alone', CONTINUE],
  ['half an interim answer', CONTINUE.slice(0, 15)],
  ['an interim answer with 100 KB of headers', `HTTP/1.1 103 Early Hints\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`],
])('%s is no answer: the message may have been delivered', async (_name, bytes) => {
  const peer = await usePeer({ onRequest: ({ socket }) => socket.end(bytes) });
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

describe.each(['UTC', 'America/Los_Angeles', 'Asia/Kathmandu'])('where the time zone is %s', (zone) => {
  const before = process.env['TZ'];
  beforeAll(() => {
    process.env['TZ'] = zone;
  });
  afterAll(() => {
    if (before === undefined) delete process.env['TZ'];
    else process.env['TZ'] = before;
  });

  test.each([
    'Sun, 01 Mar 2026 12:00:30 GMT',
    'Sunday, 01-Mar-26 12:00:30 GMT',
    'Sun Mar  1 12:00:30 2026',
    'Sun, 01 Mar 2026 12:00:30 UTC',
    'Sun, 01 Mar 2026 12:00:30',
  ])('%s is in UTC', (date) => {
    expect(parseHttpDate(date)).toBe(Date.UTC(2026, 2, 1, 12, 0, 30));
  });

  test('a Retry-After in each form is the same wait after a Date in each form', async () => {
    const forms = [
      (atMs: number) => new Date(atMs).toUTCString(),
      (atMs: number) => asctime(new Date(atMs)),
      (atMs: number) => rfc850(new Date(atMs)),
    ];
    const nowMs = Date.UTC(2026, 2, 1, 12, 0, 0);
    let form = [forms[0]!, forms[0]!];
    const peer = await usePeer({
      onRequest: ({ socket }) => {
        const headers = { 'retry-after': form[0]!(nowMs + 90_000), date: form[1]!(nowMs) };
        socket.write(answer(429, {}, headers));
      },
    });
    const client = useClient(peer.url);
    for (const until of forms) {
      for (const date of forms) {
        form = [until, date];
        expect(await get(client)).toMatchObject({ reason: 'limited', retryAfterMs: 90_000 });
        expect(await send(client)).toMatchObject({ outcome: 'limited', retryAfterMs: 90_000 });
      }
    }
  });
});

function asctime(date: Date): string {
  const [weekday = '', day = '', month = '', year = '', time = ''] = date.toUTCString().split(/,? /);
  return `${weekday} ${month} ${String(Number(day)).padStart(2)} ${time} ${year}`;
}

function rfc850(date: Date): string {
  const [, day, month, year = '', time] = date.toUTCString().split(/,? /);
  return `${date.toLocaleDateString('en', { weekday: 'long', timeZone: 'UTC' })}, ${day}-${month}-${year.slice(2)} ${time} GMT`;
}
