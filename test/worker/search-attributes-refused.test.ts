import { createServer } from 'node:http2';
import type { ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Connection } from '@temporalio/client';
import { expect, test } from 'vitest';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';

const PERMISSION_DENIED = '7';
const UNIMPLEMENTED = '12';
/** An empty protobuf message in gRPC's framing: not compressed, 0 bytes. */
const EMPTY_ANSWER = Buffer.alloc(5);

/** Runs a gRPC server that answers each method with a status. Status `0` comes with an empty message. */
async function withServer(statuses: Record<string, string>, use: (connection: Connection) => Promise<void>) {
  const server = createServer();
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    const method = String(headers[':path']).split('/').pop() ?? '';
    const status = statuses[method] ?? '0';
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status, 'grpc-message': 'not for you' }));
    stream.end(status === '0' ? EMPTY_ANSWER : undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const connection = Connection.lazy({ address: `127.0.0.1:${(server.address() as AddressInfo).port}` });
  try {
    await use(connection);
  } finally {
    await connection.close();
    await new Promise((resolve) => server.close(resolve));
  }
}

test('a worker that may not register missing search attributes names the command that does', async () => {
  await withServer({ AddSearchAttributes: PERMISSION_DENIED }, async (connection) => {
    const start = ensureSearchAttributes(connection, 'default');
    await expect(start).rejects.toThrow(/FollowUpProjectId.*not for you.*"follow-up setup"/);
  });
});

test('an error that says nothing about credentials is not blamed on them', async () => {
  const invalidArgument = '3';
  await withServer({ AddSearchAttributes: invalidArgument }, async (connection) => {
    const start = ensureSearchAttributes(connection, 'default');
    await expect(start).rejects.toThrow(/FollowUpProjectId.* the server does not register them \(not for you\)$/);
  });
});

test('a server that cannot list, add or query search attributes is accepted', async () => {
  const statuses = {
    ListSearchAttributes: UNIMPLEMENTED,
    AddSearchAttributes: UNIMPLEMENTED,
    ListWorkflowExecutions: UNIMPLEMENTED,
  };
  await withServer(statuses, async (connection) => {
    expect(await ensureSearchAttributes(connection, 'default')).toEqual({ added: [] });
  });
});

test('a server that does not accept the credentials counts as one that cannot be reached', async () => {
  const unauthenticated = '16';
  await withServer({ ListSearchAttributes: unauthenticated }, async (connection) => {
    const start = ensureSearchAttributes(connection, 'default');
    await expect(start).rejects.toThrow('Temporal cannot be reached: not for you');
    await expect(start).rejects.toMatchObject({ exitCode: 5 });
  });
});

test('a signal ends the wait until attributes are queryable', async () => {
  await withServer({ ListWorkflowExecutions: '3' }, async (connection) => {
    const end = new AbortController();
    const start = ensureSearchAttributes(connection, 'default', { signal: end.signal });
    setTimeout(() => end.abort(new Error('no longer wanted')), 100);
    await expect(start).rejects.toThrow('no longer wanted');
  });
});

test('if attributes never become queryable, the wait ends and names the command', async () => {
  await withServer({ ListWorkflowExecutions: '3' }, async (connection) => {
    const start = ensureSearchAttributes(connection, 'default', { timeoutMs: 700 });
    await expect(start).rejects.toThrow(/does not accept queries.*"follow-up setup"/);
  });
});
