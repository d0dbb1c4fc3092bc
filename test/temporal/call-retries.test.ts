import { createServer } from 'node:net';
import { once } from 'node:events';
import { status } from '@grpc/grpc-js';
import { Connection } from '@temporalio/client';
import { expect, test } from 'vitest';
import { callRetries } from '../../src/temporal/grpc.js';

test('a call that is about to be repeated is cancelled if its connection is closed, and ends no process', async () => {
  // Nothing listens there.
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  const connection = Connection.lazy({
    address: `127.0.0.1:${port}`,
    interceptors: callRetries({
      retryableDecider: (attempt) => {
        void connection.close();
        return attempt === 1;
      },
    }),
  });
  const call = connection.workflowService.getSystemInfo({});
  await expect(call).rejects.toMatchObject({ code: status.CANCELLED, details: 'Channel has been shut down' });
});
