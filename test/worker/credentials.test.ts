import { mkdtempSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { connect, createSecureServer, type IncomingHttpHeaders } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { expect, inject, onTestFinished, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { startSimulator } from '../../src/simulator/index.js';
import { startWorker } from '../../src/worker.js';
import { createLogger } from '../../src/worker/logging.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';
import { logMemory, testConfig } from './support.js';

const tlsFile = (name: string) => join(import.meta.dirname, '../agent-jobs/tls', name);

/**
 * Temporal behind a guard, which asks for a client certificate and an API key.
 *
 * @param keys those that it accepts now
 */
async function startGuard(keys: Set<string>) {
  const upstream = connect(`http://${inject('temporalAddress')}`);
  const [key, cert, ca] = ['server.key', 'server.pem', 'ca.pem'].map((name) => readFileSync(tlsFile(name)));
  const server = createSecureServer({ key: key!, cert: cert!, ca: ca!, requestCert: true, rejectUnauthorized: true });
  /** By key, the methods that were called with it. */
  const calls = new Map<string, Set<string>>();
  server.on('stream', (stream, headers) => {
    const apiKey = headers.authorization?.replace('Bearer ', '') ?? '';
    const method = headers[':path']?.split('/').at(-1) ?? '';
    calls.set(apiKey, (calls.get(apiKey) ?? new Set()).add(method));
    stream.on('error', () => undefined);
    if (!keys.has(apiKey)) {
      const refusal = { 'grpc-status': '16', 'grpc-message': 'unknown API key' };
      stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...refusal }, { endStream: true });
      return;
    }
    const request = upstream.request(headers).on('error', () => stream.close());
    let trailers: IncomingHttpHeaders = {};
    request.on('trailers', (given) => (trailers = given));
    request.on('response', (reply, flags) => {
      // NGHTTP2_FLAG_END_STREAM: an answer without a body, such as an error.
      if (flags & 1) stream.respond(reply, { endStream: true });
      else stream.respond(reply, { waitForTrailers: true });
    });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    stream.on('close', () => request.close());
    stream.pipe(request).pipe(stream);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    upstream.destroy();
    server.close();
  });
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, calls };
}

test('a worker with a certificate and an API key moves to a new key, and never to one that Temporal refuses', async () => {
  const keyFile = join(mkdtempSync(join(tmpdir(), 'temporal-key-')), 'api-key');
  const replaceKey = (text: string) => {
    writeFileSync(`${keyFile}.new`, text, { mode: 0o600 });
    renameSync(`${keyFile}.new`, keyFile);
  };
  replaceKey('key-of-yesterday');
  const accepted = new Set(['key-of-yesterday']);
  const { address, calls } = await startGuard(accepted);
  const simulator = await startSimulator({ turn: { minMs: 300, maxMs: 600 } });
  onTestFinished(() => simulator.close());
  const connection = await Connection.connect({ address: inject('temporalAddress') });
  onTestFinished(() => connection.close());
  const log = logMemory();
  const config = testConfig({
    TEMPORAL_ADDRESS: address,
    TEMPORAL_API_KEY_FILE: keyFile,
    TEMPORAL_TLS_CLIENT_CERT_PATH: tlsFile('server.pem'),
    TEMPORAL_TLS_CLIENT_KEY_PATH: tlsFile('server.key'),
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: tlsFile('ca.pem'),
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
  });
  const worker = await startWorker({ config, logger: createLogger({ level: 'info', format: 'json' }, log) });
  onTestFinished(() => worker.shutdown());
  await worker.ready;
  const followUps = new FollowUpClient({ client: new Client({ connection }), taskQueue: config.taskQueue });
  const sends = async (jobId: string) => {
    simulator.addJob({ projectId: config.taskQueue, jobId });
    return followUps.run({ projectId: config.taskQueue, jobId, prompt: 'Add a test.', ...FAST });
  };

  replaceKey('two keys');
  await eventually('the worker names the bad file', () => log.text().includes('TEMPORAL_API_KEY_FILE: the file must'));
  replaceKey('key-of-somebody-else');
  await eventually('the worker says that it is refused', () => log.text().includes('unknown API key'));
  expect(await sends('with-the-old-key')).toMatchObject({ status: 'completed' });
  expect(calls.get('key-of-somebody-else')).toEqual(new Set(['DescribeNamespace']));

  accepted.add('key-of-today');
  replaceKey('key-of-today');
  await eventually('the worker has it', () => log.text().includes("Temporal's new API key is in use"));
  accepted.delete('key-of-yesterday');
  expect(await sends('with-the-new-key')).toMatchObject({ status: 'completed' });
  // Of the connection for ordinary calls, and of that of the Temporal workers.
  expect([...(calls.get('key-of-today') ?? [])]).toEqual(
    expect.arrayContaining(['ExecuteMultiOperation', 'PollWorkflowTaskQueue', 'RespondWorkflowTaskCompleted']),
  );
  expect((await fetch(`${worker.statusUrl}/readyz`)).status).toBe(200);
  expect(log.text()).not.toMatch(/two keys|key-of-/);
  expect(log.text().match(/cannot be used/g)).toHaveLength(2);
});
