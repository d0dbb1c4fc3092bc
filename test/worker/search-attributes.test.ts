import { createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { ensureSearchAttributes, SearchAttributesError } from '../../src/temporal/search-attributes.js';
import { runCli } from '../cli/run-cli.js';
import { makeNamespace } from './support.js';

describe('search attributes', () => {
  let connection: Connection;
  beforeAll(async () => {
    connection = await Connection.connect({ address: inject('temporalAddress') });
  });
  afterAll(() => connection.close());

  /** A new namespace that has these search attributes, all of one type. */
  async function withAttributes(type: number, ...names: string[]): Promise<string> {
    const namespace = await makeNamespace(connection);
    const searchAttributes = Object.fromEntries(names.map((name) => [name, type]));
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes });
    return namespace;
  }

  test('are registered by many workers at once, and can then be queried', async () => {
    const namespace = await makeNamespace(connection);
    await Promise.all([1, 2, 3, 4].map(() => ensureSearchAttributes(connection, namespace)));
    const keywords = ['BatchId', 'JobId', 'JobStatus', 'PrLink', 'ProjectId', 'State'].map((name) => `FollowUp${name}`);
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
    expect(Object.keys(customAttributes)).toEqual(expect.arrayContaining([...keywords, 'FollowUpLastSendAt']));
    const query = [...keywords.map((name) => `${name} = "x"`), 'FollowUpLastSendAt > "2026-01-01T00:00:00Z"'].join(
      ' AND ',
    );
    await connection.workflowService.listWorkflowExecutions({ namespace, query });
    expect(await ensureSearchAttributes(connection, namespace)).toEqual({ added: [] });
  });

  test('are refused if one exists with another type', async () => {
    const integer = 3;
    const ensured = ensureSearchAttributes(connection, await withAttributes(integer, 'FollowUpState'));
    await expect(ensured).rejects.toThrow(/FollowUpState with another type than Keyword/);
    await expect(ensured).rejects.toBeInstanceOf(SearchAttributesError);
    const ofTime = ensureSearchAttributes(connection, await withAttributes(integer, 'FollowUpLastSendAt'));
    await expect(ofTime).rejects.toThrow(/FollowUpLastSendAt with another type than Datetime/);
  });

  test('that do not fit into the namespace make `setup` fail with the limit, and advice that works', async () => {
    const keyword = 2;
    const others = Array.from({ length: 7 }, (_, index) => `Other${index}`);
    const namespace = await withAttributes(keyword, ...others);
    const advice = /more than 10 search attribute of type Keyword.*; remove what nothing uses .*TEMPORAL_NAMESPACE\)$/m;
    const env = { TEMPORAL_ADDRESS: inject('temporalAddress'), TEMPORAL_NAMESPACE: namespace };
    const { exitCode, stderr } = await runCli(['setup'], { env });
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringMatching(advice) });
    expect(stderr).not.toMatch(/follow-up setup|credentials/);
    await connection.operatorService.removeSearchAttributes({ namespace, searchAttributes: others.slice(0, 3) });
    expect((await ensureSearchAttributes(connection, namespace)).added).toHaveLength(7);
  });

  test('are refused if the namespace has no more room for the type Datetime', async () => {
    const datetime = 6;
    const namespace = await withAttributes(datetime, 'OtherA', 'OtherB', 'OtherC');
    const ensured = ensureSearchAttributes(connection, namespace);
    await expect(ensured).rejects.toThrow(/more than 3 search attribute of type Datetime.*; remove what nothing uses/);
  });
});

const [INVALID_ARGUMENT, PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED] = ['3', '7', '12', '16'];
/** An empty protobuf message in gRPC's framing: not compressed, 0 bytes. */
const EMPTY_ANSWER = Buffer.alloc(5);

/** Connects to a gRPC server that answers each method with a status, by default with `0` and an empty message. */
async function connectTo(statuses: Record<string, string | undefined>): Promise<Connection> {
  const server = createServer();
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    const status = statuses[String(headers[':path']).split('/').pop() ?? ''] ?? '0';
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status, 'grpc-message': 'not for you' }));
    stream.end(status === '0' ? EMPTY_ANSWER : undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const connection = Connection.lazy({ address: `127.0.0.1:${(server.address() as AddressInfo).port}` });
  onTestFinished(async () => {
    await connection.close();
    await new Promise((resolve) => server.close(resolve));
  });
  return connection;
}

test.each<[what: string, statuses: Record<string, string | undefined>, said: RegExp]>([
  [
    'may not register search attributes',
    { AddSearchAttributes: PERMISSION_DENIED },
    /ProjectId.*not for you.*"follow-up setup" with an administrator's, which may call AddSearchAttributes/,
  ],
  [
    'may neither list nor register search attributes',
    {
      ListSearchAttributes: PERMISSION_DENIED,
      AddSearchAttributes: PERMISSION_DENIED,
      ListWorkflowExecutions: INVALID_ARGUMENT,
    },
    /lacks the search attributes .*not for you.* may call AddSearchAttributes/,
  ],
  // It says nothing about credentials.
  [
    'fails to register search attributes',
    { AddSearchAttributes: INVALID_ARGUMENT },
    /the server does not register them \(not for you\)$/,
  ],
  ['cannot log in', { ListSearchAttributes: UNAUTHENTICATED }, /^Temporal refuses access: not for you$/],
  [
    'finds search attributes never queryable',
    { ListWorkflowExecutions: INVALID_ARGUMENT },
    /accept queries.*: check its database$/,
  ],
])('a worker that %s reports that', async (_what, statuses, said) => {
  const start = ensureSearchAttributes(await connectTo(statuses), 'default', { timeoutMs: 700 });
  await expect(start).rejects.toThrow(said);
  if (statuses['ListSearchAttributes'] === UNAUTHENTICATED) await expect(start).rejects.toMatchObject({ exitCode: 5 });
});

test('a server that cannot list, add or query search attributes is accepted', async () => {
  const methods = ['ListSearchAttributes', 'AddSearchAttributes', 'ListWorkflowExecutions'];
  const connection = await connectTo(Object.fromEntries(methods.map((method) => [method, UNIMPLEMENTED])));
  expect(await ensureSearchAttributes(connection, 'default')).toEqual({ added: [] });
});

test('an abort signal ends the wait until search attributes are queryable', async () => {
  const connection = await connectTo({ ListWorkflowExecutions: INVALID_ARGUMENT });
  const signal = AbortSignal.timeout(100);
  await expect(ensureSearchAttributes(connection, 'default', { signal })).rejects.toThrow('timeout');
});
