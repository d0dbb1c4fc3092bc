import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { expect, onTestFinished, test } from 'vitest';
import { startServerProcess, waitUntilReady } from '../../src/dev-server/process.js';
import { startPostgresRig } from '../support/postgres-rig.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { resolveTemporalServer } from '../support/temporal-server-binaries.js';
import { composeServices, repositoryPath } from './support.js';

const DYNAMIC_CONFIG = repositoryPath('deploy/temporal-dynamic-config.yaml');

describeWith(await findMissing(['postgres', 'temporal-server']))('the Temporal server of docker-compose.yml', () => {
  test('knows every key of the shipped dynamic configuration', async () => {
    const { server } = await resolveTemporalServer('newest');
    const args = ['validate-dynamic-config', DYNAMIC_CONFIG];
    const { stdout } = await promisify(execFile)(server, args, { env: {}, timeout: 60_000 });
    expect(stdout).not.toContain('warning');
  });

  test('starts from its environment alone, on schemas that were set up twice, and refuses an id that its tables cannot hold', async () => {
    const rig = await startPostgresRig();
    onTestFinished(() => rig.stop());
    await rig.setUpSchemas();
    await rig.killServer();
    const { server } = await resolveTemporalServer('newest');
    const { ports } = rig;
    const asImage = startServerProcess(server, ['start'], {
      env: {
        ...composeServices['temporal']?.environment,
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
    onTestFinished(() => asImage.stop());
    const url = `http://127.0.0.1:${ports.frontendHttp}/api/v1/namespaces/default`;
    await waitUntilReady('Temporal server', asImage, 120_000, async () => (await fetch(url)).ok);
    const connection = await Connection.connect({ address: rig.address });
    onTestFinished(() => connection.close());
    const start = (length: number) =>
      new Client({ connection }).workflow.start('any', { taskQueue: 'nobody', workflowId: 'x'.repeat(length) });
    expect((await start(255)).workflowId).toHaveLength(255);
    const details = expect.stringContaining('(256/255)') as string;
    await expect(start(256)).rejects.toMatchObject({ cause: { details } });
  }, 600_000);
});
