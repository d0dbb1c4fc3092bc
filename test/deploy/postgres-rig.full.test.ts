import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SearchAttribute } from '../../src/contract/index.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { startServerProcess, waitUntilReady } from '../../src/dev-server/process.js';
import { resolveTemporalServer } from '../support/temporal-server-binaries.js';
import { composeServices } from './support.js';
import { startPostgresRig, type PostgresRig } from '../support/postgres-rig.js';
import { eventually } from '../support/eventually.js';
import { describeWith, findMissing } from '../support/requirements.js';

const DYNAMIC_CONFIG = fileURLToPath(new URL('../../deploy/temporal-dynamic-config.yaml', import.meta.url));

const missing = await findMissing(['postgres', 'temporal-server']);

describeWith(missing)('a Temporal server on PostgreSQL, as docker-compose.yml describes it', () => {
  let rig: PostgresRig;
  let connection: Connection;
  let client: Client;

  beforeAll(async () => {
    rig = await startPostgresRig({ onProgress: (message) => void process.stderr.write(`${message}\n`) });
    connection = await Connection.connect({ address: rig.address });
    client = new Client({ connection });
  }, 1_800_000);

  afterAll(async () => {
    await connection?.close();
    await rig?.stop();
  });

  test('knows every key of the shipped dynamic configuration', async () => {
    const { server } = await resolveTemporalServer('newest', process.env);
    const args = ['validate-dynamic-config', DYNAMIC_CONFIG];
    const { stdout } = await promisify(execFile)(server, args, { env: {}, timeout: 60_000 });
    expect(stdout).not.toContain('warning');
  });

  test('lists its namespaces', async () => {
    const { namespaces } = await connection.workflowService.listNamespaces({});
    expect(namespaces.map(({ namespaceInfo }) => namespaceInfo?.name)).toContain('default');
  });

  test('can be set up again, as by a second docker compose up', async () => {
    await rig.setUpSchemas();
    expect((await connection.workflowService.listNamespaces({})).namespaces.length).toBeGreaterThan(0);
  });

  test('registers search attributes and can list by them', async () => {
    await ensureSearchAttributes(connection, 'default');
    const listed = client.workflow.list({ query: `${SearchAttribute.state.name} = 'completed'` });
    expect((await listed[Symbol.asyncIterator]().next()).done).toBe(true);
  });

  test('refuses an id that is too long for its tables, because of the shipped dynamic configuration', async () => {
    const start = (length: number) =>
      client.workflow.start('anything', { taskQueue: 'nobody', workflowId: 'x'.repeat(length) });
    expect((await start(255)).workflowId).toHaveLength(255);
    const refusal = await start(256).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ cause: { details: expect.stringContaining('(256/255)') as string } });
  });

  test('keeps a workflow when the server is killed', async () => {
    const handle = await client.workflow.start('anything', { taskQueue: 'nobody', workflowId: 'over-server' });
    await rig.killServer();
    await rig.startServer();
    const description = await eventually('the workflow is known', () => handle.describe());
    expect(description.status.name).toBe('RUNNING');
  });

  test('starts like its image, from the environment in docker-compose.yml alone', async () => {
    const { server } = await resolveTemporalServer('newest', process.env);
    const given = composeServices['temporal']?.environment;
    const ports = rig.ports;
    await rig.killServer();
    const asImage = startServerProcess(server, ['start'], {
      env: {
        ...given,
        // Addresses differ from those of a container, and the shards already exist.
        BIND_ON_IP: '127.0.0.1',
        POSTGRES_SEEDS: '127.0.0.1',
        POSTGRES_PWD: 'temporal',
        DB_PORT: String(ports.postgres),
        NUM_HISTORY_SHARDS: '4',
        DYNAMIC_CONFIG_FILE_PATH: DYNAMIC_CONFIG,
        FRONTEND_GRPC_PORT: String(ports.frontend),
        FRONTEND_HTTP_PORT: String(ports.frontendHttp),
        FRONTEND_MEMBERSHIP_PORT: String(ports.frontendMembership),
        MATCHING_GRPC_PORT: String(ports.matching),
        MATCHING_MEMBERSHIP_PORT: String(ports.matchingMembership),
        HISTORY_GRPC_PORT: String(ports.history),
        HISTORY_MEMBERSHIP_PORT: String(ports.historyMembership),
        WORKER_GRPC_PORT: String(ports.worker),
        WORKER_MEMBERSHIP_PORT: String(ports.workerMembership),
      },
    });
    try {
      const url = `http://127.0.0.1:${ports.frontendHttp}/api/v1/namespaces/default`;
      await waitUntilReady('Temporal server', asImage, 120_000, async () => (await fetch(url)).ok);
      const started = client.workflow.start('anything', { taskQueue: 'nobody', workflowId: 'y'.repeat(256) });
      await expect(started).rejects.toMatchObject({ cause: { details: expect.stringContaining('256/255') as string } });
    } finally {
      await asImage.stop();
      await rig.startServer();
    }
  });

  test('keeps a workflow when PostgreSQL crashes', async () => {
    const handle = await client.workflow.start('anything', { taskQueue: 'nobody', workflowId: 'over-postgres' });
    await rig.stopPostgres('immediate');
    await expect(
      connection.withDeadline(Date.now() + 2_000, () =>
        client.workflow.start('anything', { taskQueue: 'nobody', workflowId: 'while-down' }),
      ),
    ).rejects.toThrow();
    await rig.startPostgres();
    const description = await eventually('the workflow is known', () => handle.describe(), 60_000);
    expect(description.status.name).toBe('RUNNING');
  });
});

describeWith(missing)('a Temporal server on PostgreSQL with fault injection', () => {
  test('fails a share of its own persistence calls, and still works', async () => {
    const rig = await startPostgresRig({ faults: 0.05 });
    const connection = await Connection.connect({ address: rig.address });
    const client = new Client({ connection });
    try {
      const refusals: string[] = [];
      let accepted = 0;
      let tries = 0;
      await eventually('an injected failure and a success', async () => {
        // A new id each time, because a failed start may still have taken effect.
        await client.workflow.start('anything', { taskQueue: 'nobody', workflowId: `faults-${++tries}` }).then(
          () => accepted++,
          (error: unknown) => refusals.push(error instanceof Error ? String(error.cause) : ''),
        );
        return accepted > 0 && refusals.some((each) => each.includes('fault injection error'));
      });
    } finally {
      await connection.close();
      await rig.stop();
    }
  });
});
