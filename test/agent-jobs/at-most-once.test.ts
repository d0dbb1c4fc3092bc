import type * as net from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createSingleConnection } from '../../src/agent-jobs/single-connection.js';
import { eventually } from '../support/eventually.js';
import { acts, API_KEY, get, JOB, send, sendUntilDeadline, useClient, usePeer, writes } from './support/harness.js';
import { type PeerConnection, respond } from './support/peer.js';

const takes = writes(respond(200, JOB));

for (const secure of [false, true]) {
  describe(`over ${secure ? 'TLS' : 'plain TCP'}`, () => {
    test('if the last check says no or throws, no byte is written and the outcome is notSent', async () => {
      const peer = await usePeer({ secure });
      const client = useClient(peer.url);
      const throws = () => {
        throw new Error(API_KEY);
      };
      for (const mayStart of [() => false, throws]) {
        const message = 'nothing was sent: the final check before the send failed';
        expect(await send(client, mayStart)).toEqual({ outcome: 'notSent', message });
      }
      await eventually('all connections gone', () => peer.closed === 2);
      expect(peer.connections).toBe(2);
      expect(peer.bytes).toBe(0);
    });

    test('the last check is called once, after the connection is made and before the first byte', async () => {
      const peer = await usePeer({ ...takes, secure });
      const seen: object[] = [];
      // Over plain TCP, the peer may see the connection later than the client.
      const look = () => seen.push({ connections: secure ? peer.connections : 1, bytes: peer.bytes }) > 0;
      expect((await send(useClient(peer.url), look)).outcome).toBe('sent');
      expect(seen).toEqual([{ connections: 1, bytes: 0 }]);
    });

    test('at the deadline the connection is reset, and what the peer has not read is never delivered', async () => {
      let held: PeerConnection | undefined;
      const peer = await usePeer({
        secure,
        onData: (connection) => {
          if (held) return;
          held = connection;
          connection.raw.pause();
          connection.socket.pause();
        },
      });
      // Less than the kernel buffers hold, so after a plain close the peer would get all of it.
      const prompt = 'x'.repeat(2_000_000);
      const isStuck = () => held !== undefined;
      expect((await sendUntilDeadline(useClient(peer.url), isStuck, prompt)).outcome).toBe('unknown');
      held?.socket.resume();
      held?.raw.resume();
      await eventually('the connection gone', () => peer.closed === 1);
      expect(peer.requests).toHaveLength(0);
      expect(peer.bytes).toBeLessThan(prompt.length);
    });

    test('none of 200 messages fails if the peer closes every connection after its response', async () => {
      const peer = await usePeer({
        secure,
        // A peer that promises to keep the connection and drops it breaks a client that reuses connections.
        onRequest: ({ socket }, { method }) =>
          socket.write(respond(200, JOB, { connection: 'keep-alive' }), () => method === 'POST' && socket.end()),
      });
      const client = useClient(peer.url);
      for (let sent = 0; sent < 200; sent++) expect((await send(client)).outcome).toBe('sent');
      expect(peer.requests).toHaveLength(200);
      expect(peer.connections).toBe(200);
    });
  });
}

test.for([301, 302, 303, 307, 308])('a %i is never followed, either for a message or for a read', async (code) => {
  const target = await usePeer(takes);
  for (const location of [`${target.url}/elsewhere`, '/elsewhere']) {
    const peer = await usePeer(writes(respond(code, {}, { location })));
    const client = useClient(peer.url);
    expect(await send(client)).toMatchObject({ outcome: 'unknown', statusCode: code });
    expect(await get(client)).toMatchObject({ kind: 'failed', reason: 'service', statusCode: code });
    expect(peer.requests).toHaveLength(2);
  }
  expect(target.connections).toBe(0);
});

test('a request gets one connection; a second one is refused', async () => {
  const peer = await usePeer();
  const { connect, reset } = createSingleConnection({ connectTimeoutMs: 5_000 });
  const target = { hostname: '127.0.0.1', protocol: 'http:', port: String(peer.port) };
  const open = () =>
    new Promise<net.Socket>((resolve, reject) => {
      connect(target, (error, socket) => (error ? reject(error) : resolve(socket)));
    });
  (await open()).destroy();
  await expect(open()).rejects.toThrow('the message is not sent over a second one');
  await eventually('the connection gone', () => peer.closed === 1);
  expect(peer.connections).toBe(1);
  reset();
});

test('a client that closes waits for a message and a read under way, and sends nothing afterwards', async () => {
  const held: PeerConnection[] = [];
  const peer = await usePeer(acts((connection) => held.push(connection)));
  const client = useClient(peer.url);
  const underWay = Promise.all([send(client), get(client)]);
  await eventually('both requests at the peer', () => held.length === 2);
  const closing = client.close();
  for (const { socket } of held) socket.end(respond(200, JOB));
  expect(await underWay).toMatchObject([{ outcome: 'sent' }, { kind: 'job' }]);
  await closing;
  expect((await send(client)).outcome).toBe('notSent');
  expect(await get(client)).toMatchObject({ kind: 'failed', message: 'the client is closed' });
  expect(peer.requests).toHaveLength(2);
});

test('HTTP_PROXY is ignored', async () => {
  const proxy = await usePeer();
  const peer = await usePeer(takes);
  onTestFinished(() => void vi.unstubAllEnvs());
  for (const name of ['HTTP_PROXY', 'http_proxy']) vi.stubEnv(name, proxy.url);
  vi.stubEnv('NODE_USE_ENV_PROXY', '1');
  const client = useClient(peer.url);
  expect((await send(client)).outcome).toBe('sent');
  expect((await get(client)).kind).toBe('job');
  expect(proxy.connections).toBe(0);
});

test('a response that comes before the whole message is read still counts', async () => {
  const peer = await usePeer({
    onData: ({ socket }) => {
      if (!socket.writableEnded) socket.end(respond(429, { error: 'slow down' }));
    },
  });
  expect((await send(useClient(peer.url), () => true, 'x'.repeat(200_000))).outcome).toBe('limited');
});

test('a peer that resets right after its response does not make the response unknown', async () => {
  const answersAndResets = ({ socket, raw }: PeerConnection) =>
    socket.write(respond(200, JOB), () => setImmediate(() => raw.resetAndDestroy()));
  const peer = await usePeer(acts(answersAndResets));
  expect((await send(useClient(peer.url))).outcome).toBe('sent');
  expect(peer.requests).toHaveLength(1);
});
