import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection, type ConnectionOptions } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { createLogger } from '../../src/logging.js';
import { startSimulator, type Simulator } from '../../src/simulator/index.js';
import { startWorker, type WorkerService } from '../../src/worker.js';
import { eventually } from '../support/eventually.js';
import { type PostgresRig, startPostgresRig } from '../support/postgres-rig.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { Issuer, makeGuard, replaceFile } from '../support/server-guard.js';
import { FAST } from '../support/stack.js';
import { logMemory, testConfig } from './support.js';

type Credentials = Pick<ConnectionOptions, 'tls' | 'apiKey'>;

const missing = await findMissing(['openssl', 'postgres', 'temporal-server']);

describeWith(missing)('a worker of a server that asks for a certificate and an API key', () => {
  const directory = mkdtempSync(join(tmpdir(), 'credentials-'));
  const path = (name: string) => join(directory, name);
  const guard = makeGuard(directory);
  const old = new Issuer('old');
  const young = new Issuer('young');
  /** Who issues what this test's own clients show, and the clients' authorities. */
  let issuer = old;
  const apiKeys = [old.token(), young.token()] as const;
  const log = logMemory();

  let rig: PostgresRig;
  let simulator: Simulator;
  let worker: WorkerService;
  const config = () =>
    testConfig({
      TEMPORAL_ADDRESS: rig.address,
      TEMPORAL_TLS_CLIENT_CERT_PATH: path('client.crt'),
      TEMPORAL_TLS_CLIENT_KEY_PATH: path('client.key'),
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: path('servers.crt'),
      TEMPORAL_API_KEY_FILE: path('api-key'),
      AGENT_JOBS_BASE_URL: simulator.baseUrl,
      AGENT_JOBS_API_KEY: simulator.apiKey,
      FOLLOW_UP_SEND_TIMEOUT: '5m',
      FOLLOW_UP_TASK_QUEUE: 'guarded',
    });

  /** Resolves when the send of the job `held` may be answered. */
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));

  function credentialsOf(by: Issuer): Credentials {
    const { certificate, key } = by.certificate();
    return {
      tls: {
        clientCertPair: { crt: Buffer.from(certificate), key: Buffer.from(key) },
        serverRootCACertificate: Buffer.from(issuer.authority),
      },
      apiKey: by.token(),
    };
  }

  const connect = (credentials: Credentials) =>
    Connection.connect({ address: rig.address, ...credentials, interceptors: [] });

  /** Calls the server over a new connection. */
  async function onServer<T>(by: Issuer, use: (followUps: FollowUpClient) => Promise<T>): Promise<T> {
    const connection = await connect(credentialsOf(by));
    try {
      return await use(new FollowUpClient({ client: new Client({ connection }), taskQueue: 'guarded' }));
    } finally {
      await connection.close();
    }
  }

  const input = (jobId: string) => ({ projectId: 'guarded', jobId, prompt: `message for ${jobId}`, ...FAST });
  const messagesOf = (jobId: string) => simulator.ledger.filter((entry) => entry.jobId === jobId);

  beforeAll(async () => {
    guard.trust(old, [old]);
    const { certificate, key } = old.certificate();
    replaceFile(path('client.crt'), certificate);
    replaceFile(path('client.key'), key);
    replaceFile(path('servers.crt'), old.authority);
    replaceFile(path('api-key'), apiKeys[0]);
    rig = await startPostgresRig({
      guard: { ...guard.guard, credentials: () => credentialsOf(issuer) },
      onProgress: (message) => void process.stderr.write(`${message}\n`),
    });
    simulator = await startSimulator({ turn: { minMs: 300, maxMs: 600 } }, async ({ step, jobId }) => {
      if (step === 'recorded' && jobId === 'held') await released;
    });
    for (const jobId of ['before', 'held', 'after']) simulator.addJob({ projectId: 'guarded', jobId });
    worker = await startWorker({ config: config(), logger: createLogger({ level: 'info', format: 'json' }, log) });
    await worker.ready;
  }, 1_800_000);

  afterAll(async () => {
    release();
    await worker?.shutdown();
    await simulator?.close();
    await rig?.stop();
  });

  test('goes on with new ones when the old ones expire, and sends what is under way once', async () => {
    expect(await onServer(old, (followUps) => followUps.run(input('before')))).toMatchObject({
      status: 'completed',
    });
    await onServer(old, (followUps) => followUps.start({ ...input('held'), key: 'held' }));
    await eventually('the message is on its way', () => messagesOf('held').length === 1);

    // A certificate whose key is still to come cannot be used, and nothing breaks.
    guard.trust(old, [old, young]);
    const { certificate, key } = young.certificate();
    replaceFile(path('client.crt'), certificate);
    await eventually('the worker says so', () => log.text().includes('New credentials for Temporal cannot be used'));
    replaceFile(path('servers.crt'), old.authority + young.authority);
    replaceFile(path('api-key'), apiKeys[1]);
    replaceFile(path('client.key'), key);
    await eventually('the worker has them', () => log.text().includes("Temporal's new credentials are in use"));

    guard.trust(young, [young]);
    issuer = young;
    await rig.killServer();
    await rig.startServer();
    // Neither the old certificate nor the old key is accepted any more.
    await expect(connect(credentialsOf(old))).rejects.toThrow();
    await expect(connect({ ...credentialsOf(young), apiKey: apiKeys[0] })).rejects.toMatchObject({
      cause: { details: expect.stringContaining('unauthorized') as string },
    });

    release();
    const after = await onServer(young, (followUps) => followUps.run(input('after')));
    expect(after).toMatchObject({ status: 'completed', delivery: 'sent' });
    const held = await onServer(young, (followUps) => followUps.run({ ...input('held'), key: 'held' }));
    expect(held).toMatchObject({ status: 'completed', delivery: 'sent' });
    expect(messagesOf('held')).toHaveLength(1);
    for (const secret of [...apiKeys, 'PRIVATE KEY']) expect(log.text()).not.toContain(secret);
  });
});
