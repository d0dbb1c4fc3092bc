import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startDevServer, type DevServer } from '../../src/dev-server/index.js';

describe('the development server', () => {
  async function start(options: Omit<Parameters<typeof startDevServer>[0], 'env'> = {}): Promise<DevServer> {
    const server = await startDevServer({ env: process.env, ...options });
    onTestFinished(() => server.stop());
    return server;
  }

  test('serves its UI, its namespace, and what its arguments say', async () => {
    const server = await start({ ui: true, args: ['--search-attribute', 'Colour=Keyword'] });
    const connection = await Connection.connect({ address: server.address });
    onTestFinished(() => connection.close());
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace: 'default' });
    expect(Object.keys(customAttributes)).toContain('Colour');
    expect((await fetch(server.uiUrl ?? '')).status).toBe(200);
  });

  test('keeps workflows when it is killed and restarted with the same port and file', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'dev-server-'));
    const args = ['--db-filename', join(directory, 'temporal.db')];
    const first = await start({ args });
    const connection = await Connection.connect({ address: first.address });
    const client = new Client({ connection });
    const workflowId = 'survivor';
    await client.workflow.start('anything', { taskQueue: 'nobody', workflowId });
    await first.kill();
    const second = await start({ args, port: first.port });
    expect(second.address).toBe(first.address);
    expect(second.pid).not.toBe(first.pid);
    const description = await client.workflow.getHandle(workflowId).describe();
    expect(description.status.name).toBe('RUNNING');
    await connection.close();
    await rm(directory, { recursive: true });
  });

  test('names a requested port that is in use', async () => {
    const squatter = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void squatter.close());
    await once(squatter, 'listening');
    const { port } = squatter.address() as AddressInfo;
    await expect(start({ port })).rejects.toThrow(`port: ${port} on 127.0.0.1 is taken`);
    await expect(start({ uiPort: port })).rejects.toThrow(`uiPort: ${port} on 127.0.0.1 is taken`);
  });

  test('shows the output of a server that does not start', async () => {
    await expect(start({ args: ['--no-such-flag'] })).rejects.toThrow(/ended before it was ready.*no-such-flag/s);
  });

  test('two servers started at once take different ports, even if both prefer the usual ones', async () => {
    const options = { preferUsualPorts: true, ui: true };
    const [first, second] = await Promise.all([start(options), start(options)]);
    expect(first.address).not.toBe(second.address);
    expect(first.uiUrl).not.toBe(second.uiUrl);
    expect([first.lastOutput(), second.lastOutput()].join()).not.toContain('address already in use');
  });
});
