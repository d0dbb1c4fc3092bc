import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startDevServer, type DevServer } from '../../src/dev-server/index.js';
import { findFreePort } from '../../src/ports.js';

const env = process.env;

describe('the development server', () => {
  let directory: string;
  const running: DevServer[] = [];

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'dev-server-'));
  });

  afterEach(async () => {
    await Promise.all(running.splice(0).map((server) => server.stop()));
    await rm(directory, { recursive: true, force: true });
  });

  async function start(options: Omit<Parameters<typeof startDevServer>[0], 'env'> = {}): Promise<DevServer> {
    const server = await startDevServer({ env, ...options });
    running.push(server);
    return server;
  }

  test('serves its UI, its namespace, and what its arguments say', async () => {
    const server = await start({ ui: true, args: ['--search-attribute', 'Colour=Keyword'] });
    const connection = await Connection.connect({ address: server.address });
    try {
      const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace: 'default' });
      expect(Object.keys(customAttributes)).toContain('Colour');
    } finally {
      await connection.close();
    }
    const page = await fetch(server.uiUrl ?? '');
    expect(page.status).toBe(200);
  });

  test('keeps workflows when it is killed and restarted with the same port and file', async () => {
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
  });

  test('names a requested port that is in use', async () => {
    const port = await findFreePort();
    const squatter = await listen(port);
    try {
      await expect(start({ port })).rejects.toThrow(`port: ${port} on 127.0.0.1 is taken`);
      await expect(start({ uiPort: port })).rejects.toThrow(`uiPort: ${port} on 127.0.0.1 is taken`);
    } finally {
      squatter.close();
    }
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

function listen(port: number): Promise<Server> {
  return new Promise((resolve) => {
    const server = createServer().listen(port, '127.0.0.1', () => resolve(server));
  });
}
