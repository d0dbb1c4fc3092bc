import type * as net from 'node:net';
import { describe, expect, test } from 'vitest';
import type { AgentJobsClientOptions } from '../../src/agent-jobs/index.js';
import type { SendOutcome } from '../../src/contract/index.js';
import type { GetJobFailureReason } from '../../src/protocol/index.js';
import { acts, ADDRESS, get, JOB, send, sendUntilDeadline, useClient, usePeer, writes } from './support/harness.js';
import { type PeerScript, reset, respond } from './support/peer.js';

/** What a peer does, and what that means for a message and for a read. */
type Row = [peer: string, script: PeerScript, outcome: SendOutcome, read: GetJobFailureReason | 'job', more?: More];
interface More {
  only?: 'plain' | 'tls';
  /** How many complete requests of one message reach the peer. @default 1 */
  received?: 0;
  message?: RegExp;
  statusCode?: number;
  /** It ends at a deadline. */
  stalls?: true;
  client?: Partial<AgentJobsClientOptions>;
}

const atAccept = (act: (raw: net.Socket) => unknown): PeerScript => ({ onAccept: (raw) => (act(raw), false) });
const atHello = (act: (raw: net.Socket) => unknown) => atAccept((raw) => raw.once('data', () => act(raw)));
const half = respond(200, '{', { 'content-length': '9' });
const longHeader = respond(200, JOB, { 'x-long': 'x'.repeat(70_000) });
const upgrade = 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n';
const tls = { only: 'tls', received: 0 } as const;
const plain = { only: 'plain', received: 0 } as const;
const ok = { statusCode: 200 };
const lost = { ...ok, message: /body was lost/ };
const connectTimeout = { ...tls, message: /Connect Timeout .* timeout: 200ms/, client: { connectTimeoutMs: 200 } };
const stalls = { ...tls, stalls: true, message: /deadline of 200 ms/ } as const;
const silent = atAccept(() => undefined);
const plainText = atHello((raw) => raw.write('HTTP/1.1 400 Bad Request\r\n\r\n'));
const otherHost = { certificate: 'other-host' } as const;
const stallsInBody = acts(({ socket }) => socket.write(half));
const resetsInBody = acts((peer) => peer.socket.write(half, () => setImmediate(() => reset(peer))));

const before: Row[] = [
  ['resets on accept', atAccept((raw) => raw.resetAndDestroy()), 'notSent', 'network', tls],
  ['closes in the TLS handshake', atHello((raw) => raw.end()), 'notSent', 'network', tls],
  ['resets in the TLS handshake', atHello((raw) => raw.resetAndDestroy()), 'notSent', 'network', tls],
  ['stalls in the TLS handshake', silent, 'notSent', 'timeout', connectTimeout],
  [
    'stalls in the TLS handshake beyond the deadline',
    silent,
    'notSent',
    'timeout',
    { ...stalls, client: { sendTimeoutMs: 200 } },
  ],
  ['does not speak TLS', plainText, 'notSent', 'network', { ...tls, message: /TLS/ }],
  ['has the certificate of another host', otherHost, 'notSent', 'network', { ...tls, message: /another host name/ }],
  ['has an expired certificate', { certificate: 'expired' }, 'notSent', 'network', { ...tls, message: /expired/ }],
];
const unanswered: Row[] = [
  ['reads all, closes without an answer', writes(''), 'unknown', 'network'],
  ['closes at once, reads nothing', atAccept((raw) => raw.end()), 'unknown', 'network', plain],
  ['reads all, resets', acts(reset), 'unknown', 'network'],
  ['reads all, stays silent', {}, 'unknown', 'timeout', { stalls: true, message: /deadline of 5000 ms/ }],
  ['never reads', atAccept((raw) => raw.pause()), 'unknown', 'timeout', { ...plain, stalls: true }],
  ['sends half a status line', writes('HTTP/1.1 20'), 'unknown', 'network'],
  ['sends half the headers', writes('HTTP/1.1 200 OK\r\nconte'), 'unknown', 'network'],
  ['sends garbage', writes('\u0001\u0002 garbage\r\n\r\n'), 'unknown', 'network'],
  ['sends a header of 70 KB', writes(longHeader), 'unknown', 'network', { message: /headers are too long/ }],
  ['switches protocols', writes(upgrade), 'unknown', 'network'],
];
const sent: Row[] = [
  ['answers 200', writes(respond(200, JOB)), 'sent', 'job', ok],
  ['answers 202 with nothing', writes(respond(202, '')), 'sent', 'invalid-body', { statusCode: 202, message: /empty/ }],
  ['answers 204', writes('HTTP/1.1 204 No Content\r\n\r\n'), 'sent', 'invalid-body', { statusCode: 204 }],
  ['answers 200, the body stalls', stallsInBody, 'sent', 'timeout', { ...lost, stalls: true }],
  ['answers 200, resets in the body', resetsInBody, 'sent', 'network', lost],
  ['answers 200, closes in the body', writes(half), 'sent', 'network', lost],
];
const statuses = (outcome: SendOutcome, read: GetJobFailureReason, codes: number[]): Row[] =>
  codes.map((code) => {
    const script = writes(respond(code, { error: 'words' }));
    return [`answers ${code}`, script, outcome, read, { statusCode: code, message: / words$/ }];
  });
const rows = [
  ...before,
  ...unanswered,
  ...sent,
  ...statuses('rejected', 'rejected', [400, 405, 410, 413, 422, 499]),
  ...statuses('credentials', 'credentials', [401, 403]),
  ...statuses('payment', 'payment', [402]),
  ...statuses('limited', 'limited', [429]),
  ...statuses('unknown', 'service', [300, 408, 409, 425, 500, 501, 502, 503, 504, 599]),
];

for (const secure of [false, true]) {
  describe(`over ${secure ? 'TLS' : 'plain TCP'}, a message to a peer that`, () => {
    const cases = rows
      .filter(([, , , , more]) => !more?.only || (more.only === 'tls') === secure)
      .map(([peer, script, outcome, read, more = {}]) => [peer, outcome, script, read, more] as const);
    test.each(cases)("'%s' is '%s'", async (_peer, outcome, script, read, more) => {
      const { received = 1, message = /./, stalls = false } = more;
      const peer = await usePeer({ ...script, secure });
      const client = useClient(peer.url, { ...more.client, ...(stalls && { getTimeoutMs: 150 }) });
      const isStuck = (hasStarted: boolean) =>
        (hasStarted || secure) && peer.connections + peer.requests.length > received;
      const result = await (stalls ? sendUntilDeadline(client, isStuck) : send(client));
      expect(result).toMatchObject({ outcome, ...(more.statusCode && { statusCode: more.statusCode }) });
      if (!result.job) expect(result.message).toMatch(message);
      expect(peer.connections).toBe(1);
      expect(peer.requests).toHaveLength(received);
      const got = await get(client);
      expect(got.kind === 'failed' ? got.reason : got.kind).toBe(read);
      expect(peer.requests.length).toBeLessThanOrEqual(2 * received);
    });
  });
}

test('a closed port, an unknown host and an untrusted certificate prove that nothing was sent', async () => {
  const closed = useClient('http://127.0.0.1:1');
  const message = expect.stringMatching(/ECONNREFUSED.*AGENT_JOBS_BASE_URL/) as string;
  expect(await send(closed)).toEqual({ outcome: 'notSent', message });
  expect(await get(closed)).toMatchObject({ reason: 'network', message });
  expect((await send(useClient('http://no-such-host.invalid'))).outcome).toBe('notSent');
  const peer = await usePeer({ secure: true });
  const untrusting = await send(useClient(peer.url, { ca: undefined }));
  expect(untrusting.outcome).toBe('notSent');
  expect(untrusting.message).toMatch(/UNABLE_TO_VERIFY_LEAF_SIGNATURE.*NODE_EXTRA_CA_CERTS/);
  expect(peer.bytes).toBe(0);
});

test('an accepted message returns the job, and has the form that the service expects', async () => {
  const peer = await usePeer(writes(respond(200, JOB)));
  const prompt = 'Ünïcode "quoted" \ud83d\ude80';
  const result = await send(useClient(`${peer.url}/prefix/`), () => true, prompt);
  expect(result).toEqual({ outcome: 'sent', statusCode: 200, job: JOB });
  const [{ headers, body, ...request } = { headers: new Map<string, string>(), body: '' }] = peer.requests;
  expect(request).toEqual({ method: 'POST', path: '/prefix/v2/agent/project-1/job/job-1/message' });
  expect(JSON.parse(body)).toEqual({ prompt });
  expect(headers.get('content-type')).toBe('application/json');
  expect(headers.get('authorization')).toMatch(/^Bearer adm_/);
  expect(headers.get('accept-encoding')).toBe('identity');
});

test('without an API key nothing is sent, and the outcome is notSent, because another worker may have one', async () => {
  const peer = await usePeer();
  const client = useClient(peer.url, { keys: { forProject: () => Promise.resolve(undefined) } });
  const message = expect.stringContaining('project-1') as string;
  expect(await send(client)).toEqual({ outcome: 'notSent', message });
  expect(await get(client)).toMatchObject({ kind: 'failed', reason: 'no-key' });
  expect(peer.connections).toBe(0);
});

test('ids that are not allowed in a path never make a request', async () => {
  const peer = await usePeer();
  const client = useClient(peer.url);
  for (const jobId of ['..', 'a/../b', '%2e%2e', 'a?b', 'a#b', 'a b', '', 'a\r\nb', 'a..b', 'x'.repeat(129)]) {
    const sent = await client.sendMessage({ ...ADDRESS, jobId, prompt: 'x', mayStart: () => true });
    expect(sent).toMatchObject({ outcome: 'rejected', message: expect.stringMatching(/jobId: must/) as string });
    for (const address of [
      { projectId: 'p', jobId },
      { projectId: jobId, jobId: 'j' },
    ]) {
      expect(await client.getJob(address)).toMatchObject({ kind: 'failed', reason: 'rejected' });
    }
  }
  expect(peer.connections).toBe(0);
});
