import { expect, test } from 'vitest';
import { acts, get, JOB, send, useClient, usePeer, writes } from './support/harness.js';
import { respond } from './support/peer.js';

const keeps = acts(({ socket }) => socket.write(respond(200, JOB)));

test('a 404 is notFound with the text of the service, if there is any', async () => {
  for (const text of ['no such job', '']) {
    const peer = await usePeer(writes(respond(404, text)));
    const client = useClient(peer.url);
    const message = text === '' ? 'HTTP 404' : `HTTP 404: ${text}`;
    expect(await get(client)).toEqual({ kind: 'notFound', message });
    expect(await send(client)).toMatchObject({ outcome: 'notFound', statusCode: 404, message });
  }
});

test('a job is returned whole, with unknown fields, an unknown status and another id', async () => {
  const job = { id: 'another', status: 'paused', source: { repository: 'r', ref: null }, later: [{ x: 1 }] };
  const peer = await usePeer(writes(respond(200, job)));
  expect(await get(useClient(`${peer.url}/base`))).toEqual({ kind: 'job', job });
  expect(peer.requests[0]).toMatchObject({ method: 'GET', path: '/base/v2/agent/project-1/job/job-1', body: '' });
});

test('reads share connections; a message between them has its own', async () => {
  const peer = await usePeer(keeps);
  const client = useClient(peer.url);
  for (let reads = 0; reads < 20; reads++) expect((await get(client)).kind).toBe('job');
  const readConnections = peer.connections;
  expect(readConnections).toBeLessThanOrEqual(3);
  expect((await send(client)).outcome).toBe('sent');
  expect((await get(client)).kind).toBe('job');
  expect(peer.connections).toBe(readConnections + 1);
});

test('reads and messages work over TLS, by host name and by address', async () => {
  const peer = await usePeer({ ...keeps, secure: true });
  for (const url of [peer.url, peer.url.replace('localhost', '127.0.0.1')]) {
    const client = useClient(url);
    expect((await get(client)).kind).toBe('job');
    expect((await send(client)).outcome).toBe('sent');
  }
});
