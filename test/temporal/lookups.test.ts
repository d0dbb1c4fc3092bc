import { Client, Connection } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { expect, inject, test } from 'vitest';
import { readRunStart } from '../../src/temporal/lookups.js';

test('the start of a workflow that Temporal does not keep is not found', async () => {
  const connection = await Connection.connect({ address: inject('temporalAddress') });
  const reading = readRunStart(new Client({ connection }), 'follow-up-batch/gone/0-x');
  await expect(reading).rejects.toBeInstanceOf(WorkflowNotFoundError);
  await connection.close();
});
