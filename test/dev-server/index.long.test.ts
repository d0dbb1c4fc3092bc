import { Connection } from '@temporalio/client';
import { expect, onTestFinished, test } from 'vitest';
import { startDevServer } from '../../src/dev-server/index.js';

async function start(options: Omit<Parameters<typeof startDevServer>[0], 'env'>) {
  const server = await startDevServer({ env: process.env, ui: true, ...options });
  onTestFinished(() => server.stop());
  return server;
}

test('two servers that start at once use their arguments and different ports, and a port in use is refused', async () => {
  const options = { preferUsualPorts: true, args: ['--search-attribute', 'Colour=Keyword'] };
  const [first, second] = await Promise.all([start(options), start(options)]);
  for (const server of [first, second]) {
    const connection = await Connection.connect({ address: server.address });
    onTestFinished(() => connection.close());
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace: 'default' });
    expect(Object.keys(customAttributes)).toContain('Colour');
    expect((await fetch(server.uiUrl ?? '')).status).toBe(200);
    expect(server.lastOutput()).not.toContain('address already in use');
  }
  expect(first.address).not.toBe(second.address);
  expect(first.uiUrl).not.toBe(second.uiUrl);
  const { port } = first;
  for (const taken of [{ port }, { uiPort: port }]) {
    await expect(start(taken)).rejects.toThrow(`port ${port} of 127.0.0.1 is taken`);
  }
});
