import { status } from '@grpc/grpc-js';
import { Connection } from '@temporalio/client';
import { expect, test } from 'vitest';
import { callRetries } from '../../src/temporal/grpc.js';

test('a call that is about to be repeated is cancelled if its connection is closed, and the process goes on', async () => {
  const connection = Connection.lazy({
    // Nothing listens there.
    address: '127.0.0.1:1',
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

test('a call that begins after its connection was closed is cancelled', async () => {
  const connection = Connection.lazy({ address: '127.0.0.1:1', interceptors: callRetries() });
  await connection.close();
  await expect(connection.workflowService.getSystemInfo({})).rejects.toMatchObject({
    code: status.CANCELLED,
    details: 'Channel has been shut down',
  });
});
