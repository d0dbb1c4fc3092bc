import { Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { ensureSearchAttributes, SearchAttributesError } from '../../src/temporal/search-attributes.js';
import { makeNamespace } from './support.js';

describe('search attributes', () => {
  let connection: Connection;
  beforeAll(async () => {
    connection = await Connection.connect({ address: inject('temporalAddress') });
  });
  afterAll(() => connection.close());

  test('are registered once and can then be queried', async () => {
    const namespace = await makeNamespace(connection);
    const first = await ensureSearchAttributes(connection, namespace);
    expect(first.added.sort()).toEqual([
      'FollowUpBatchId',
      'FollowUpJobId',
      'FollowUpJobStatus',
      'FollowUpPrLink',
      'FollowUpProjectId',
      'FollowUpState',
    ]);
    const query = 'FollowUpState = "polling" AND FollowUpBatchId = "b"';
    await connection.workflowService.listWorkflowExecutions({ namespace, query });
    expect(await ensureSearchAttributes(connection, namespace)).toEqual({ added: [] });
  });

  test('can be registered by many at once', async () => {
    const namespace = await makeNamespace(connection);
    await Promise.all([1, 2, 3, 4].map(() => ensureSearchAttributes(connection, namespace)));
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
    expect(Object.keys(customAttributes)).toContain('FollowUpState');
  });

  test('are refused if one exists with another type', async () => {
    const namespace = await makeNamespace(connection);
    const integer = 3;
    await connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries([['FollowUpState', integer]]),
    });
    await expect(ensureSearchAttributes(connection, namespace)).rejects.toThrow(/FollowUpState with another type/);
    await expect(ensureSearchAttributes(connection, namespace)).rejects.toBeInstanceOf(SearchAttributesError);
  });
});
