import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SearchAttribute } from '../../src/contract/index.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { startPostgresRig, type PostgresRig } from '../support/postgres-rig.js';
import { eventually } from '../support/eventually.js';
import { describeWith, findMissing } from '../support/requirements.js';

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

  test('lists its namespaces', async () => {
    const { namespaces } = await connection.workflowService.listNamespaces({});
    expect(namespaces.map(({ namespaceInfo }) => namespaceInfo?.name)).toContain('default');
  });

  test('is set up again without harm, as by a second docker compose up', async () => {
    await rig.setUpSchemas();
    expect((await connection.workflowService.listNamespaces({})).namespaces.length).toBeGreaterThan(0);
  });

  test('registers search attributes and lists by them', async () => {
    await ensureSearchAttributes(connection, 'default');
    const listed = client.workflow.list({ query: `${SearchAttribute.state.name} = 'done'` });
    expect((await listed[Symbol.asyncIterator]().next()).done).toBe(true);
  });

  test('refuses an id that the columns of its tables cannot hold, by the shipped dynamic configuration', async () => {
    const start = (length: number) =>
      client.workflow.start('anything', { taskQueue: 'nobody', workflowId: 'x'.repeat(length) });
    expect((await start(255)).workflowId).toHaveLength(255);
    const refusal = await start(256).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ cause: { details: 'WorkflowId length exceeds limit.' } });
  });

  test('keeps a workflow over kill -9 of the server', async () => {
    const handle = await client.workflow.start('anything', { taskQueue: 'nobody', workflowId: 'over-server' });
    await rig.killServer();
    await rig.startServer();
    const description = await eventually('the workflow is known', () => handle.describe());
    expect(description.status.name).toBe('RUNNING');
  });

  test('keeps a workflow over a crash of PostgreSQL', async () => {
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
  test('fails a share of its own persistence calls, and works all the same', async () => {
    const rig = await startPostgresRig({ faults: 0.05 });
    const connection = await Connection.connect({ address: rig.address });
    const client = new Client({ connection });
    try {
      const refusals: string[] = [];
      let accepted = 0;
      await eventually('an injected failure and a success', async () => {
        await client.workflow.start('anything', { taskQueue: 'nobody', workflowId: `faults-${accepted}` }).then(
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
